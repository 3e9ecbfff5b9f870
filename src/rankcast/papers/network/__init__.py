"""Simulated networks of brokers: what it costs to tell subscribers, and that nobody misses anything.

| module | what it has |
| --- | --- |
| `topology` | nodes, links and brokers: AS-like graphs, trees, rings; hops by shortest paths |
| `zones`, `content` | a content-driven network (CAN, Meghdoot): greedy forwarding, multicast of tiles |
| `routers` | an acyclic network (Siena): subscriptions forwarded with and without covering, events back |
| `diagonal` | objects shared by servers along the diagonal, questions that walk to the neighbours |
| `simulation`, `traffic` | a workload on a content-driven network: bytes by method |
| `listening` | the check at the end: what every subscriber must know |
| `config`, `values`, `experiments`, `commands`, `plots`, `map` | `rankcast simulate FILE.toml` |

Everything random comes from one seeded generator: the same seed gives the same figures.
"""

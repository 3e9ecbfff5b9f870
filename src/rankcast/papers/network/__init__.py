"""Simulated networks of brokers: what it costs to reach subscribers, and that nobody misses anything.

| module | what it has |
| --- | --- |
| `topology` | nodes, links and brokers: AS-like graphs, trees, rings; seeded workloads |
| `zones`, `content` | a content-driven network (CAN, Meghdoot): greedy forwarding, multicast of tiles |
| `routing` | an acyclic network (Siena): subscriptions forwarded with and without covering, events back |
| `diagonal` | objects shared by servers along the diagonal, questions that walk to the neighbours |
| `simulation` | a workload on a content-driven network, method by method; experiments |
| `traffic` | bytes by method; the check at the end: what every subscriber must know |
| `config`, `commands`, `plots` | `rankcast simulate FILE.toml` |

Everything random comes from one seeded generator: the same seed gives the same figures.
"""

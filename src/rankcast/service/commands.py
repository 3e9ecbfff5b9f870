"""The table of commands: what can be asked of the service, by whom, and what is answered.

Routes, the OpenAPI description and the page of `/docs` are made from it;
`requests.handlers` has a function of each name.
"""

from __future__ import annotations

from typing import NamedTuple

from rankcast.service.operating.tokens import Scope

STREAM = "/v1/streams/{stream}"
SUBSCRIPTION = f"{STREAM}/subscriptions/{{id}}"
WEBHOOK = f"{STREAM}/webhooks/{{name}}"


class Parameter(NamedTuple):
    """A parameter of a query."""

    name: str
    summary: str
    kind: str = "string"
    required: bool = False
    repeated: bool = False
    choices: tuple[str, ...] = ()


class Command(NamedTuple):
    """One row: method and path, who may call it (None: anybody), what it does, takes, answers and costs."""

    name: str
    method: str
    path: str
    scope: Scope | None
    summary: str
    takes: str = ""  # a schema of rankcast.service.openapi
    gives: str = ""
    status: tuple[int, ...] = (200,)
    query: tuple[Parameter, ...] = ()
    cost: str = ""

    @property
    def writes(self) -> bool:
        """Whether it may have an Idempotency-Key."""
        return self.takes in ("Rows", "Row", "Patch") or (self.method == "DELETE" and self.path != STREAM)


RETURN = Parameter("return", "`deltas`: the answer has the rows", choices=("deltas",))
WATCHED = Parameter("subscription", "ids of subscriptions; none: all", repeated=True)
PACE = (
    Parameter("min_interval", "least number of seconds between two messages", "number"),
    Parameter("min_change", "least change of a score that is reported", "number"),
)

COMMANDS: tuple[Command, ...] = (
    Command(
        "publish",
        "POST",
        f"{STREAM}/events",
        "publish",
        "Publish a batch of events; all are accepted, or none.",
        "Rows",
        "Written",
        query=(RETURN,),
        cost="what the engine's publish costs, and a share of a sync",
    ),
    Command(
        "put_stream",
        "PUT",
        STREAM,
        "admin",
        "Create a stream (201); an identical one exists: 200; other settings: 409.",
        "NewStream",
        "Stream",
        (201, 200),
    ),
    Command("list_streams", "GET", "/v1/streams", "read", "List the streams.", gives="Streams"),
    Command("get_stream", "GET", STREAM, "read", "Show one stream, with its counters.", gives="Stream"),
    Command("end_stream", "DELETE", STREAM, "admin", "End a stream and delete its data.", status=(204,)),
    Command(
        "put_subscription",
        "PUT",
        SUBSCRIPTION,
        "subscribe",
        "Subscribe (201) or replace (200); the answer has the first list.",
        "Row",
        "Subscribed",
        (201, 200),
    ),
    Command(
        "amend_subscription",
        "PATCH",
        SUBSCRIPTION,
        "subscribe",
        "Amend a subscription: absent values stay, a null sets the default.",
        "Patch",
        "Subscribed",
    ),
    Command(
        "list_subscriptions",
        "GET",
        f"{STREAM}/subscriptions",
        "read",
        "List subscriptions as registered, in the order of their ids, in pages.",
        gives="Page of subscriptions",
        query=(
            Parameter("prefix", "the first characters of the ids; for integers: the id"),
            Parameter("after", "the id after which the page starts: `next` of the previous page"),
            Parameter("limit", "how many rows, at most 1000; by default 100", "integer"),
            Parameter(
                "forwarded",
                "`true`: for a router, also say which ones are forwarded",
                choices=("true", "false"),
            ),
        ),
    ),
    Command(
        "get_subscription", "GET", SUBSCRIPTION, "read", "Show a subscription as registered.", gives="Row"
    ),
    Command("end_subscription", "DELETE", SUBSCRIPTION, "subscribe", "Unsubscribe.", gives="Written"),
    Command(
        "subscribe",
        "POST",
        f"{STREAM}/subscriptions",
        "subscribe",
        "Register many subscriptions; all are accepted, or none.",
        "Rows",
        "Written",
        (201,),
        (RETURN,),
    ),
    Command("results", "GET", f"{SUBSCRIPTION}/results", "read", "The current list.", gives="Table"),
    Command(
        "explain",
        "GET",
        f"{SUBSCRIPTION}/explain",
        "read",
        "Why an item is or is not in the list.",
        gives="Explanation",
        query=(Parameter("item", "an id; for matching: an event's attributes, as JSON", required=True),),
    ),
    Command(
        "upsert",
        "POST",
        f"{STREAM}/objects",
        "publish",
        "Insert or replace objects of moving queries.",
        "Rows",
        "Written",
        query=(RETURN,),
    ),
    Command(
        "list_objects",
        "GET",
        f"{STREAM}/objects",
        "read",
        "The live objects, of engines that keep objects.",
        gives="Table",
        query=(Parameter("limit", "how many rows, at most 10000; by default 1000", "integer"),),
    ),
    Command("remove", "DELETE", f"{STREAM}/objects/{{id}}", "publish", "Remove an object.", gives="Written"),
    Command(
        "push",
        "PUT",
        f"{STREAM}/batches/{{batch}}",
        "publish",
        "Push a batch, once per number, into an external stream: deltas, or all current lists.",
        "Rows",
        "Written",
        query=(
            Parameter("content", "what the rows are; by default deltas", choices=("deltas", "results")),
            Parameter("part", "the index among several writes of one batch, from 0", "integer"),
            Parameter("source", "where the batches come from; the same for all batches of a stream"),
            RETURN,
        ),
        cost="what the lists hold that it concerns, and a share of a sync",
    ),
    Command(
        "zones",
        "GET",
        f"{STREAM}/zones",
        "read",
        "Safe zones of moving queries, as GeoJSON.",
        gives="GeoJson",
        query=(WATCHED,),
    ),
    Command(
        "deltas",
        "GET",
        f"{STREAM}/deltas",
        "read",
        "Server-sent events: a snapshot, then deltas; continues after Last-Event-ID.",
        gives="Events",
        query=(WATCHED, *PACE),
    ),
    Command(
        "writes",
        "GET",
        f"{STREAM}/writes",
        "read",
        "Server-sent events for observers: rows as they are written, starting with the last ones.",
        gives="Events",
        query=(
            Parameter("last", "how many past writes to start with, at most 500; by default 20", "integer"),
        ),
    ),
    Command(
        "tiles",
        "GET",
        f"{STREAM}/tiles",
        "read",
        "Server-sent events for gateways: tiles; continues after Last-Event-ID, or sends a gap.",
        gives="Events",
        query=(
            Parameter(
                "method",
                "`dense` (by default): for any range; `sparse`: only for the stream's own subscriptions",
                choices=("dense", "sparse"),
            ),
        ),
    ),
    Command(
        "lists",
        "POST",
        f"{STREAM}/tiles/lists",
        "read",
        "The current lists of unregistered ranges, as of the last tiles sent.",
        "Ranges",
        "Lists",
        cost="what finding the lists costs, on a thread of its own",
    ),
    Command(
        "put_webhook",
        "PUT",
        WEBHOOK,
        "admin",
        "Post signed deltas to a URL; the answer has the secret once, unless it was given.",
        "NewWebhook",
        "Webhook",
        (201, 200),
    ),
    Command("get_webhook", "GET", WEBHOOK, "admin", "Show a webhook and its progress.", gives="Webhook"),
    Command("end_webhook", "DELETE", WEBHOOK, "admin", "End a webhook.", gives="Written"),
    Command(
        "dead_letters",
        "GET",
        f"{WEBHOOK}/dead",
        "admin",
        "List the messages that could not be delivered, the oldest first.",
        gives="DeadLetters",
    ),
    Command(
        "retry_dead_letters",
        "POST",
        f"{WEBHOOK}/dead/retry",
        "admin",
        "Send dead letters again: one by its id, or all.",
        gives="Waiting",
        status=(202,),
        query=(Parameter("id", "the id of a dead letter; none: all"),),
    ),
    Command(
        "dryrun",
        "POST",
        f"{STREAM}/dryrun",
        "subscribe",
        "What a subscription would have received over the retained writes; changes nothing.",
        "Question",
        "DryRun",
        cost="what the engine takes for the retained writes, on a thread of its own",
    ),
    Command("metrics", "GET", "/metrics", "read", "Counters for Prometheus.", gives="Text"),
    Command("health", "GET", "/healthz", None, "Whether the process is alive.", gives="Status"),
    Command(
        "ready",
        "GET",
        "/readyz",
        None,
        "Whether the service accepts calls.",
        gives="Status",
        status=(200, 503),
    ),
    Command("openapi", "GET", "/openapi.json", None, "This description.", gives="Object"),
    Command("docs", "GET", "/docs", None, "This description as a page.", gives="Page"),
    Command("home", "GET", "/", None, "The console.", gives="Page"),
    Command("asset", "GET", "/console/{file}", None, "A file of the console.", gives="Text"),
)

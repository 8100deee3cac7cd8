"""Knows of the contract what OpenAPI cannot say, and lets requests find real messages."""

import json
import os
import re
import urllib.request
import zlib

import schemathesis

API = f"http://127.0.0.1:{os.environ['DLQ_SERVER_PORT']}/api/v1"
TOPICS = ["shop.orders.dlq.v1", "shop.payments.dlq", "shop.shipments.dlq"]
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

# These refusals depend on two parameters, on an earlier answer or on a sum, so a schema
# cannot describe them.
EXPECTED = {
    ("created_to", "must be later than created_from"),
    ("cursor", "is not a cursor of this list with these parameters"),
    ("ramp.wait", 'must be a duration from 1s to 24h, such as "30s" or "5m"'),
}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drops a refusal of valid data whose only reasons are expected."""
    if type(failure).__name__ != "RejectedPositiveData" or response.status_code != 400:
        return True
    details = response.json()["error"]["details"]
    return not details or any((d["field"], d["message"]) not in EXPECTED for d in details)


def get(path):
    with urllib.request.urlopen(API + path, timeout=10) as answer:
        return json.load(answer)


MESSAGES = [m["id"] for topic in TOPICS for m in get(f"/dlq/{topic}?page_size=200")["messages"]]
assert MESSAGES, "the shop has no messages yet"


def real_id(path):
    """An id that exists, or did: messages can have been deleted, jobs can have ended."""
    if "/messages/" in path:
        return MESSAGES
    return [job["id"] for job in get("/jobs?page_size=20")["jobs"]]


def one_of(values, instead_of):
    """Chooses by the generated value, so that a run can be repeated."""
    return values[zlib.crc32(instead_of.encode()) % len(values)] if values else instead_of


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces well-formed ids and topics of the path, and topics of the body. No message
    would have the generated ones."""
    parameters = case.path_parameters or {}
    generated = parameters.get("id")
    if isinstance(generated, str) and UUID.fullmatch(generated) and generated not in MESSAGES:
        parameters["id"] = one_of(real_id(case.path), generated)
    topic = parameters.get("topic")
    if isinstance(topic, str) and TOPIC.fullmatch(topic) and len(topic) % 2:
        parameters["topic"] = one_of(TOPICS, topic)
    if isinstance(case.body, dict) and isinstance(case.body.get("topic"), str) and TOPIC.fullmatch(case.body["topic"]):
        case.body["topic"] = one_of(TOPICS, case.body["topic"])

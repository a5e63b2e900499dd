"""Three remote tools in Python, one for each rule of repetition."""

import asyncio
import json
import logging
import os
import urllib.error
import urllib.request

from steadfast_worker import ToolError, Worker

PAYMENTS = os.environ.get("PAYMENTS_URL", "http://127.0.0.1:9000")

worker = Worker(
    os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
    name=os.environ.get("WORKER_NAME", "python"),
    prefix=os.environ.get("NATS_PREFIX", "sf"),
    ack_wait_s=float(os.environ.get("ACK_WAIT_S", "30")),
    user=os.environ.get("NATS_USER"),
    password=os.environ.get("NATS_PASSWORD"),
)


def post(path, call, body):
    """A request to the payment service. Blocking, so it runs on a thread of its own: what blocks the
    loop stops the heartbeats, too."""
    request = urllib.request.Request(
        f"{PAYMENTS}/{path}",
        data=json.dumps(body).encode(),
        headers={
            "Content-Type": "application/json",
            "Idempotency-Key": call.key,
            "Fence": call.fence,
        },
    )
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        if error.code in (502, 503, 504):
            raise  # Nobody knows whether it arrived.
        raise ToolError(f"the payment service says {error.code}") from error


async def was_charged(call):
    """Asks what became of a charge. If there is none, the service keeps the
    fence with the key, and refuses requests whose fence does not sort above it."""
    found = await asyncio.to_thread(post, "charges/find", call, {})
    return ("done", found["charge"]) if found["charge"] else "not_done"


@worker.tool("charge_card", check=was_charged)  # never
async def charge_card(call):
    return await asyncio.to_thread(post, "charges", call, call.input)


@worker.tool("send_invoice")  # keyed: the service sends one invoice for each key
async def send_invoice(call):
    return await asyncio.to_thread(post, "invoices", call, call.input)


@worker.tool("render_report")  # safe
async def render_report(call):
    pages = call.input.get("pages", 3)
    for page in range(1, pages + 1):
        if call.cancelled.is_set():
            return {"stopped_before_page": page}
        await call.progress({"page": page, "of": pages})
        await asyncio.sleep(call.input.get("seconds_a_page", 1))
    return {"pages": pages}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    asyncio.run(worker.run())

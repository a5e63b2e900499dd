"""A worker of remote tools: takes jobs out of Steadfast's tool queue, runs them, answers.

    worker = Worker(nats_url)

    @worker.tool("charge_card")
    async def charge_card(call): ...          # what it returns is the result

    asyncio.run(worker.run())

The rules that it keeps, and why, are in ../../workers.md.
"""

import asyncio
import json
import logging
import signal
import time
import uuid

import nats
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError, NotFoundError

log = logging.getLogger("worker")

VERSION = 1
ANSWER_BYTES_MAX = 256 * 1024
PROGRESS_BYTES_MAX = 64 * 1024
# What the broker says when somebody else has written a key before.
TAKEN = (10071, 10164)
# Errors of a broker that is away, or of an answer that did not come: nobody knows, try again.
AGAIN = (NatsError, OSError, asyncio.TimeoutError)


class Retry(Exception):
    """The tool certainly did nothing: a `safe` or `keyed` call is tried again."""

    def __init__(self, detail, after_s=None):
        super().__init__(detail)
        self.after_s = after_s


class ToolError(Exception):
    """The tool ran and failed in a way that the model should know of."""


class Call:
    """One attempt of a call: what a tool is told, and what it may say."""

    def __init__(self, worker, job):
        self._worker = worker
        self._addresses = job["addresses"]
        self.job = job
        self.input = job["input"]
        # The same at every attempt: what a `keyed` tool dedupes by.
        self.key = job["key"]
        self.attempt = job["attempt"]
        # Sorts higher at each attempt: what a tool that said "not_done" refuses the others by.
        self.fence = job.get("fence", "")
        # Set when nobody wants the outcome any more: cancelled, or too late.
        self.cancelled = asyncio.Event()

    def remaining_s(self):
        return self.job["deadline_at_ms"] / 1000 - time.time()

    async def progress(self, output):
        """Shows how far it is; each takes the place of the one before, and may be lost."""
        said = {"version": VERSION, "call": self.job["call"], "output": output}
        data = json.dumps(said).encode()
        if len(data) <= PROGRESS_BYTES_MAX and self._worker.nats.is_connected:
            await self._worker.nats.publish(self._addresses["progress"], data)


class Worker:
    def __init__(
        self,
        url,
        name="python",
        prefix="sf",
        ack_wait_s=30,
        jobs_max=8,
        cancel_grace_s=5,
        drain_grace_s=20,
        **connect,
    ):
        self.url = url
        # Never the same twice, also after a restart: claims are told apart by it.
        self.id = f"{name}-{uuid.uuid4().hex}"
        self.prefix = prefix
        self.ack_wait_s = ack_wait_s
        self.cancel_grace_s = cancel_grace_s
        self.drain_grace_s = drain_grace_s
        self.connect = connect
        self.jobs_max = jobs_max
        self.tools = {}
        self.nats = None
        self.js = None
        self.jobs = set()
        self.stopping = asyncio.Event()

    def tool(self, name, check=None):
        """Registers a tool. `check(call)` says of an attempt ("done", result), "not_done" or
        "unknown"; after "not_done" the tool must refuse each run whose `call.fence` does not sort
        above that of the check."""

        def register(run):
            self.tools[name] = (run, check)
            return run

        return register

    async def run(self):
        """Works until SIGTERM or SIGINT; then takes no more, and lets what runs come to its end."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.stopping.set)
        opening = asyncio.create_task(self.open())
        stopping = asyncio.create_task(self.stopping.wait())
        await asyncio.wait({opening, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            opening.cancel()
            return
        await opening
        room = asyncio.Semaphore(self.jobs_max)
        pulls = [asyncio.create_task(self.pull(name, room)) for name in self.tools]
        await stopping
        for pull in pulls:
            pull.cancel()
        if self.jobs:
            log.info("stopping, %d jobs run", len(self.jobs))
            _, late = await asyncio.wait(self.jobs, timeout=self.drain_grace_s)
            for job in late:
                # It comes again elsewhere, or its claim says that nobody knows.
                job.cancel()
        await self.nats.close()

    async def open(self):
        async def lost():
            log.warning("broker lost, connecting again")

        async def back():
            log.info("broker is back")

        async def failed(error):
            log.debug("broker: %r", error)

        self.nats = await nats.connect(
            self.url,
            name=self.id,
            # For ever, at the start too: a worker outlives its broker's restarts.
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.5,
            disconnected_cb=lost,
            reconnected_cb=back,
            error_cb=failed,
            **self.connect,
        )
        self.js = self.nats.jetstream(timeout=5)

    async def consumer(self, tool):
        """The consumer that all workers of a tool share; the first one makes it. Gives its
        subscription and its `ack_wait`."""
        stream, durable = f"{self.prefix.upper()}_TOOLS", f"tool_{tool}"
        try:
            info = await self.js.consumer_info(stream, durable)
        except NotFoundError:
            config = ConsumerConfig(
                durable_name=durable,
                filter_subject=f"{self.prefix}.tool.*.{tool}.>",
                deliver_policy=DeliverPolicy.ALL,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self.ack_wait_s,
                max_deliver=-1,
                max_ack_pending=20_000,
            )
            info = await self.js.add_consumer(stream, config)
        subscription = await self.js.pull_subscribe_bind(durable, stream)
        return subscription, info.config.ack_wait

    async def pull(self, tool, room):
        """Takes jobs of a tool, one by one, only while there is room to run them."""
        subscription, failures = None, 0
        while True:
            await room.acquire()
            kept = True
            try:
                if subscription is None:
                    subscription, ack_wait_s = await self.consumer(tool)
                    log.info("takes jobs of %s", tool)
                [message] = await subscription.fetch(1, timeout=20)
                failures, kept = 0, False
                job = asyncio.create_task(self.take_care(tool, message, ack_wait_s))
                self.jobs.add(job)
                job.add_done_callback(self.jobs.discard)
                job.add_done_callback(lambda _: room.release())
            except (TimeoutError, asyncio.TimeoutError, nats.errors.TimeoutError):
                pass  # Nothing was there.
            except AGAIN as error:
                failures += 1
                log.warning("tool queue not read, again: %r", error)
                await asyncio.sleep(min(0.2 * 2**failures, 5))
            finally:
                if kept:
                    room.release()

    async def take_care(self, tool, message, ack_wait_s):
        """One delivery, from its claim to its answer; says meanwhile that somebody is at it."""

        async def heartbeat():
            while True:
                await asyncio.sleep(ack_wait_s / 3)
                try:
                    await message.in_progress()
                except AGAIN as error:
                    # Without it the job comes again, which its claim or its key allows for.
                    log.debug("no heartbeat: %r", error)

        beating = asyncio.create_task(heartbeat())
        try:
            over = await self.handle(tool, message)
        except Exception:
            log.exception("job of %s left to others", tool)
            return
        finally:
            beating.cancel()
        try:
            if over:
                await message.ack_sync(timeout=5)
            else:
                await message.nak(delay=5)
        except AGAIN as error:
            log.debug("job not settled with its queue, it comes again: %r", error)

    async def handle(self, tool, message):
        """Whether the job is over; otherwise it is for somebody else, or for later."""
        try:
            job = json.loads(message.data)
            version, addresses = job["version"], job["addresses"]
        except (ValueError, KeyError, TypeError):
            log.error("dropped what is no job: %s", message.subject)
            return True
        if version != VERSION:
            log.warning("job of version %s is left to newer workers", version)
            return False
        call = Call(self, job)
        run, check = self.tools[tool]
        # Before the claim: a cancel that comes from here on is heard.
        cancels = await self.nats.subscribe(addresses["cancels"])
        heard = asyncio.create_task(self.hear(cancels, call))
        try:
            if call.remaining_s() <= 0:
                return True  # Its session looks at deadlines; nobody waits for an answer.
            if job["kind"] == "check":
                return await self.answer_check(call, check)
            if job["replay"] == "never" and not await self.claim(call):
                return True
            outcome = await self.attempt(call, run)
        finally:
            heard.cancel()
            await self.unsubscribe(cancels)
        return await self.answer(call, outcome)

    async def hear(self, cancels, call):
        async for _ in cancels.messages:
            log.info("%s is not wanted any more", call.key)
            call.cancelled.set()

    async def unsubscribe(self, subscription):
        try:
            await subscription.unsubscribe()
        except AGAIN as error:
            log.debug("still subscribed: %r", error)

    async def claim(self, call):
        """Whether this delivery may run the job: it alone, of all that ever come. Without an answer
        of the broker it may not."""
        bucket = call.job["addresses"]["claims"]
        subject = f"$KV.{bucket}.{call.job['claim']}"
        holder = f"{self.id}-{uuid.uuid4().hex}".encode()
        only_if_new = {"Nats-Expected-Last-Subject-Sequence": "0"}
        wait_s = 0.1
        while call.remaining_s() > 0 and not call.cancelled.is_set():
            try:
                await self.js.publish(subject, holder, headers=only_if_new, timeout=5)
                return True
            except APIError as error:
                if error.err_code in TAKEN:
                    # An earlier try of this delivery may be what stands there: ask the leader.
                    owner = await self.claimed_by(bucket, subject)
                    if owner is not None:
                        if owner != holder:
                            log.info("%s is %s's", call.key, owner.decode())
                        return owner == holder
                else:
                    log.warning("not claimed, again: %r", error)
            except AGAIN as error:
                log.warning("not claimed, again: %r", error)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, 5)
        return False

    async def claimed_by(self, bucket, subject):
        try:
            stands = await self.js.get_msg(f"KV_{bucket}", subject=subject)
            return stands.data
        except AGAIN as error:
            log.warning("holder of the claim not known, again: %r", error)
            return None

    async def attempt(self, call, run):
        """Runs the tool. When it is cancelled, or at its deadline, it is asked to stop and has a grace
        to answer; then it is dropped, and nobody knows what it did."""
        running = asyncio.create_task(run(call))
        cancelled = asyncio.create_task(call.cancelled.wait())
        try:
            await asyncio.wait(
                {running, cancelled},
                timeout=max(call.remaining_s(), 0),
                return_when=asyncio.FIRST_COMPLETED,
            )
            call.cancelled.set()
            if not running.done():
                await asyncio.wait({running}, timeout=self.cancel_grace_s)
            if not running.done():
                return {"type": "unknown", "detail": "it was told to stop and gave no outcome"}
            return {"type": "done", "output": running.result()}
        except ToolError as error:
            return {"type": "done", "output": str(error), "is_error": True}
        except Retry as error:
            outcome = {"type": "retry", "detail": str(error)}
            if error.after_s is not None:
                outcome["retry_after_ms"] = int(error.after_s * 1000)
            return outcome
        except Exception as error:
            log.exception("%s failed in a way that says nothing of what it did", call.key)
            return {"type": "unknown", "detail": repr(error)}
        finally:
            running.cancel()
            cancelled.cancel()

    async def answer_check(self, call, check):
        outcome = {"type": "unknown", "detail": "the tool has no check"}
        if check is not None:
            try:
                said = await asyncio.wait_for(check(call), timeout=max(call.remaining_s(), 0))
                match said:
                    case ("done", result):
                        outcome = {"type": "done", "output": result}
                    case "not_done":
                        outcome = {"type": "not_done"}
                    case _:
                        outcome = {"type": "unknown"}
            except Exception as error:
                outcome = {"type": "unknown", "detail": repr(error)}
        return await self.answer(call, outcome)

    async def answer(self, call, outcome):
        """Sends an answer until the session's mailbox has it: the same bytes, under the same id."""
        job = call.job
        answer = {
            "version": VERSION,
            "kind": job["kind"],
            "call": job["call"],
            "attempt": job["attempt"],
            "outcome": outcome,
        }
        data = json.dumps(answer).encode()
        if len(data) > ANSWER_BYTES_MAX:
            size = f"it was done, but its result of {len(data)} bytes is too large to be sent"
            answer["outcome"] = {"type": "done", "output": size, "is_error": True}
            data = json.dumps(answer).encode()
        subject = job["addresses"]["answers"]
        headers = {"Nats-Msg-Id": f"answer-{job['key']}-{job['kind']}-{job['attempt']}-{self.id}"}
        give_up_at, wait_s = time.monotonic() + 600, 0.1
        while time.monotonic() < give_up_at:
            try:
                await self.js.publish(subject, data, headers=headers, timeout=5)
                log.info("%s attempt %d: %s", call.key, call.attempt, answer["outcome"]["type"])
                return True
            except AGAIN as error:
                # Also a full mailbox: its session will make room.
                log.warning("answer not sent, again: %r", error)
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, 5)
        log.error("answer of %s given up: its call runs into its deadline", call.key)
        return False

// The published client without a page: its own chat, its own transport, over the real routes. What
// comes over the wire is checked on the way: each chunk against the client's own schema, and the
// stream as a whole against a grammar.
import assert from 'node:assert/strict';
import {
  AbstractChat,
  DefaultChatTransport,
  safeValidateUIMessages,
  uiMessageChunkSchema,
} from 'ai';

export const api = `${process.env.STEADFAST_URL}/v1/agents/chat/chat`;
const control = process.env.STEADFAST_CONTROL;

let next = 0;
export const newId = name => `${name}-${process.pid}-${next++}`;

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.messages.map((old, at) => (at === index ? this.snapshot(message) : old));
  };
  snapshot = value => structuredClone(value);
}

class Headless extends AbstractChat {
  constructor(init) {
    super({ ...init, state: new State() });
    if (init.messages) this.messages = init.messages;
  }
}

/// A chat. `cut`: so many chunks are let through, then the connection breaks.
export function chat(id, options = {}) {
  const wire = { requests: [], streams: [], cut: options.cut, errors: [], ran: [] };
  const fetchThrough = async (url, init = {}) => {
    const request = {
      method: init.method ?? 'GET',
      body: init.body ? JSON.parse(init.body) : undefined,
    };
    wire.requests.push(request);
    const body = request.body && options.tamper ? options.tamper(request.body) : request.body;
    const response = await fetch(url, {
      ...init,
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    request.status = response.status;
    if (!response.ok || response.status === 204) return response;
    const cut = wire.cut;
    wire.cut = undefined;
    const stream = { chunks: [], done: false };
    wire.streams.push(stream);
    return new Response(response.body.pipeThrough(tap(stream, cut)), response);
  };
  const instance = new Headless({
    id,
    messages: options.messages,
    generateId: options.generateId,
    sendAutomaticallyWhen: options.sendAutomaticallyWhen,
    onToolCall: async ({ toolCall }) => {
      wire.ran.push(toolCall.toolName);
      if (options.onToolCall) await options.onToolCall(instance, toolCall);
    },
    onError: error => wire.errors.push(error.message),
    transport: new DefaultChatTransport({ api, fetch: fetchThrough }),
  });
  return { chat: instance, wire };
}

/// Lets bytes through frame by frame; breaks the connection after `cut` chunks.
function tap(stream, cut) {
  let rest = '';
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  return new TransformStream({
    transform(bytes, controller) {
      rest += decoder.decode(bytes, { stream: true });
      let end;
      while ((end = rest.indexOf('\n\n')) >= 0) {
        const frame = rest.slice(0, end);
        rest = rest.slice(end + 2);
        if (frame.startsWith('data: ')) {
          if (cut !== undefined && stream.chunks.length >= cut) {
            stream.cut = true;
            controller.error(new TypeError('network error'));
            return;
          }
          const data = frame.slice('data: '.length);
          if (data === '[DONE]') stream.done = true;
          else stream.chunks.push(JSON.parse(data));
        } else {
          assert.ok(frame.startsWith(':'), `neither data nor a comment: ${frame}`);
        }
        controller.enqueue(encoder.encode(`${frame}\n\n`));
      }
    },
  });
}

/// Checks every chunk, and that they make one message which ends once.
export async function checkStream(stream) {
  const schema = uiMessageChunkSchema();
  for (const chunk of stream.chunks) {
    const result = await schema.validate(chunk);
    assert.ok(result.success, `${JSON.stringify(chunk)}: ${result.error}`);
  }
  const kinds = stream.chunks.map(chunk => chunk.type);
  const story = kinds.join(' ');
  const ids = new Set(stream.chunks.filter(chunk => chunk.type === 'start').map(c => c.messageId));
  assert.ok(ids.size <= 1, story);
  if (ids.size === 1) assert.equal(kinds[0], 'start', story);
  let inStep = false;
  const open = new Set();
  for (const chunk of stream.chunks) {
    switch (chunk.type) {
      case 'start-step':
        assert.ok(!inStep, story);
        inStep = true;
        break;
      case 'finish-step':
        assert.ok(inStep && open.size === 0, story);
        inStep = false;
        break;
      case 'reset-step':
        assert.ok(inStep, story);
        open.clear();
        break;
      case 'text-start':
      case 'reasoning-start':
        assert.ok(inStep && !open.has(chunk.id), story);
        open.add(chunk.id);
        break;
      case 'text-delta':
      case 'reasoning-delta':
        assert.ok(open.has(chunk.id), story);
        break;
      case 'text-end':
      case 'reasoning-end':
        assert.ok(open.delete(chunk.id), story);
        break;
    }
  }
  if (stream.cut) return;
  assert.ok(stream.done, `no [DONE]: ${story}`);
  assert.ok(!inStep && open.size === 0, story);
  const terminal = kinds.filter(kind => ['finish', 'error', 'abort'].includes(kind));
  assert.equal(terminal.length, 1, story);
  assert.equal(kinds.at(-1), terminal[0], story);
}

/// Checks all that came, and that what the client keeps may be stored.
export async function check(of) {
  for (const stream of of.wire.streams) await checkStream(stream);
  const { messages } = of.chat;
  const valid = await safeValidateUIMessages({ messages: plain(messages) });
  assert.ok(valid.success, `${valid.error}\n${JSON.stringify(messages, null, 1)}`);
}

/// As it would be stored.
export const plain = value => JSON.parse(JSON.stringify(value));

/// What a client sees that comes now and knows nothing of the newest message.
export async function replayed(id, options = {}) {
  const late = chat(id, options);
  await late.chat.resumeStream();
  await check(late);
  return late;
}

/// A client that comes later must see the same message.
export async function checkReplay(id, of) {
  const late = await replayed(id);
  assert.deepEqual(plain(late.chat.messages.at(-1)), plain(of.chat.messages.at(-1)));
  const { messages } = await (await fetch(`${api}/${id}`)).json();
  const valid = await safeValidateUIMessages({ messages });
  assert.ok(valid.success, `${valid.error}\n${JSON.stringify(messages, null, 1)}`);
  assert.deepEqual(messages.at(-1), plain(of.chat.messages.at(-1)));
  assert.deepEqual(messages.map(message => message.role),
    of.chat.messages.map(message => message.role));
  return { ...late, stored: messages };
}

export const script = (...steps) => `SCRIPT: ${JSON.stringify(steps)}`;
export const send = (of, text) => of.chat.sendMessage({ text });
export const texts = message =>
  message.parts.filter(part => part.type === 'text').map(part => part.text).join('|');
export const tools = message => message.parts.filter(part => part.type.startsWith('tool-'));

/// Waits for something of the client's own state.
export async function until(what, holds) {
  const end = Date.now() + 30_000;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`it never came: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

/// Kills the node without warning and starts it again.
export async function crash() {
  const answer = await fetch(`${control}/crash`, { method: 'POST' });
  assert.equal(answer.status, 200);
}

/// Requests that a tool got, as `{ tool, key, input, headers }`.
export async function ledger(session) {
  const answer = await fetch(`${control}/ledger`);
  const all = await answer.json();
  return all.filter(entry => entry.key.includes(`/${session}/`));
}

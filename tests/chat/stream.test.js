import assert from 'node:assert/strict';
import test from 'node:test';
import {
  api, chat, check, checkReplay, checkStream, crash, ledger, newId, plain, replayed, script, send,
  texts, tools, until,
} from './client.js';

const long = script(
  { reasoning: 'thinking about it', text: 'first I look', chunks: 4, delay: 0.002,
    tools: [{ tool: 'look', input: { at: 'a' } }, { tool: 'look', input: { at: 'b' } }] },
  { text: 'and this is what I saw', chunks: 6, delay: 0.002 },
);

test('a turn of two steps is one message', async () => {
  const id = newId('plain');
  const one = chat(id);
  await send(one, long);
  await check(one);
  assert.equal(one.chat.status, 'ready');
  const { parts, metadata } = one.chat.messages[1];
  assert.deepEqual(
    parts.map(part => part.type),
    ['step-start', 'reasoning', 'text', 'tool-look', 'tool-look', 'step-start', 'text'],
  );
  assert.deepEqual(parts.map(part => part.state ?? ''),
    ['', 'done', 'done', 'output-available', 'output-available', '', 'done']);
  assert.equal(texts(one.chat.messages[1]), 'first I look|and this is what I saw');
  assert.ok(metadata.usage.totalTokens > 0 && metadata.createdAt > 0);
  await checkReplay(id, one);
  // A second turn is a message of its own.
  await send(one, 'hello');
  assert.equal(one.chat.messages.length, 4);
  assert.notEqual(one.chat.messages[3].id, one.chat.messages[1].id);
  await check(one);
});

test('a client that was cut anywhere comes back to the same message', async () => {
  const whole = chat(newId('whole'));
  await send(whole, long);
  const chunks = whole.wire.streams[0].chunks.length;
  assert.ok(chunks > 20, `${chunks}`);
  const same = message => {
    const { metadata, ...rest } = plain(message);
    return { ...rest, usage: metadata.usage };
  };
  const expected = same(whole.chat.messages[1]);
  for (let k = 0; k <= chunks; k++) {
    const cut = chat(newId(`cut${k}`), { cut: k });
    await send(cut, long);
    assert.equal(cut.chat.status, cut.wire.streams[0].cut ? 'error' : 'ready');
    cut.wire.cut = k;
    await cut.chat.resumeStream();
    await cut.chat.resumeStream();
    await check(cut);
    assert.equal(cut.chat.messages.length, 2, `cut after ${k}`);
    assert.deepEqual(same(cut.chat.messages[1]), expected, `cut after ${k}`);
  }
});

test('two readers see the same', async () => {
  const id = newId('two');
  const slow = script({ text: 'one two three four five six', chunks: 20, delay: 0.02 });
  const first = chat(id);
  const done = send(first, slow);
  await until('the first text', () => first.chat.messages[1]?.parts.length > 1);
  const second = chat(id);
  await Promise.all([done, second.chat.resumeStream()]);
  await check(first);
  await check(second);
  assert.ok(second.wire.streams[0].chunks.filter(chunk => chunk.type === 'text-delta').length > 1);
  assert.deepEqual(plain(second.chat.messages), plain([first.chat.messages[1]]));
});

test('a message sent again is not run again', async () => {
  const id = newId('again');
  const first = chat(id);
  await send(first, script({ tool: 'look', input: { at: 'x' } }, { text: 'seen' }));
  const second = chat(id, { messages: [first.chat.messages[0]] });
  await second.chat.sendMessage();
  await check(second);
  assert.deepEqual(plain(second.chat.messages), plain(first.chat.messages));
  assert.equal((await ledger(id)).length, 1);
});

test('a message waits behind the turn that runs', async () => {
  const id = newId('queue');
  const first = chat(id);
  const done = send(first, script({ text: 'a long first answer', chunks: 10, delay: 0.02 }));
  await until('the first text', () => first.chat.messages[1]?.parts.length > 1);
  const second = chat(id);
  await Promise.all([done, send(second, 'hello')]);
  await check(first);
  await check(second);
  assert.equal(texts(first.chat.messages[1]), 'a long first answer');
  assert.match(texts(second.chat.messages[1]), /The script is over/);
});

test('a crash of the node is never an end, and the message goes on', async () => {
  const id = newId('crash');
  const slow = script(
    { text: 'before', tools: [{ tool: 'look', input: { at: 'c' } }] },
    { text: 'one two three four five six seven eight nine ten', chunks: 10, delay: 0.15 },
  );
  const one = chat(id);
  const done = send(one, slow);
  await until('text of the second step', () => one.chat.messages[1]?.parts.length > 4);
  await crash();
  await done;
  assert.equal(one.chat.status, 'error');
  assert.ok(!one.wire.streams[0].done);
  one.wire.streams[0].cut = true;
  await one.chat.resumeStream();
  await check(one);
  assert.equal(one.chat.messages.length, 2);
  assert.equal(texts(one.chat.messages[1]),
    'before|one two three four five six seven eight nine ten');
  assert.equal((await ledger(id)).length, 1);
  await checkReplay(id, one);
});

test('a failed attempt is withdrawn', async () => {
  const id = newId('retry');
  const one = chat(id);
  await send(one, script({ status: 529, times: 1, text: 'at last' }));
  await check(one);
  assert.equal(texts(one.chat.messages[1]), 'at last');
  await checkReplay(id, one);
});

test('a turn that fails is an error, and can be asked again', async () => {
  const id = newId('fail');
  const one = chat(id);
  await send(one, script({ text: 'a step', tool: 'look', input: { at: 'f' } }, { status: 400 }));
  assert.equal(one.chat.status, 'error');
  assert.equal(one.wire.streams[0].chunks.at(-1).type, 'error');
  await check(one);
  const late = await replayed(id);
  assert.equal(late.chat.status, 'error');
  assert.deepEqual(plain(late.chat.messages[0]), plain(one.chat.messages[1]));
  await send(one, script({ text: 'better now' }));
  assert.equal(one.chat.status, 'ready');
  await checkReplay(id, one);
});

test('a stopped answer is over for good', async () => {
  const id = newId('stop');
  const one = chat(id);
  const other = chat(id);
  const done = send(one, script({ text: 'this goes on for a while', chunks: 100, delay: 0.05 }));
  await until('the first text', () => one.chat.messages[1]?.parts.length > 1);
  const resumed = other.chat.resumeStream();
  await until('the other sees it', () => other.chat.messages[0]?.parts.length > 1);
  one.chat.stop();
  await done;
  const stop = () => fetch(`${api}/${id}/stop`, { method: 'POST' });
  const stale = await fetch(`${api}/${id}/stop`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ activeStreamId: 'assistant-1' }),
  });
  assert.deepEqual(await stale.json(), { success: true });
  assert.equal(other.chat.status, 'streaming');
  assert.deepEqual(await (await stop()).json(), { success: true });
  await resumed;
  await check(other);
  assert.equal(other.wire.streams[0].chunks.at(-1).type, 'abort');
  assert.deepEqual(await (await stop()).json(), { success: true });
  await other.chat.resumeStream();
  assert.deepEqual(other.wire.requests.map(request => request.status), [200, 204]);
  assert.equal(other.chat.status, 'ready');
  await send(one, 'hello');
  assert.equal(one.chat.status, 'ready');
});

test('nothing is there to come back to in a new chat', async () => {
  const one = chat(newId('new'));
  await one.chat.resumeStream();
  assert.deepEqual(one.wire.requests.map(request => request.status), [204]);
  assert.equal(one.chat.status, 'ready');
});

test('keys that would kill the parser come renamed', async () => {
  const id = newId('poison');
  const one = chat(id);
  await send(one, script({ tool: 'poison', input: {} }, { text: 'done' }));
  await check(one);
  const [part] = tools(one.chat.messages[1]);
  assert.equal(part.state, 'output-available');
  assert.deepEqual(part.output, { a: [{ '(__proto__)': { b: 1 } }],
    '(constructor)': { prototype: 1 } });
  await checkReplay(id, one);
});

test('invalid calls are shown as such', async () => {
  const id = newId('invalid');
  const one = chat(id);
  await send(one, script(
    { tools: [{ tool: 'look', input: { at: 7 } }, { tool: 'nowhere', input: {} }] },
    { text: 'sorry' },
  ));
  await check(one);
  assert.deepEqual(tools(one.chat.messages[1]).map(part => [part.type, part.state]),
    [['tool-look', 'output-error'], ['tool-nowhere', 'output-error']]);
  assert.deepEqual(await ledger(id), []);
  await checkReplay(id, one);
});

test('a file reaches the session', async () => {
  const id = newId('file');
  const one = chat(id);
  await one.chat.sendMessage({
    text: 'hello',
    files: [{ type: 'file', mediaType: 'image/png', filename: 'a.png',
      url: 'data:image/png;base64,AAAA' }],
    metadata: { mood: 'fine' },
  });
  await check(one);
  const answer = await fetch(`${process.env.STEADFAST_URL}/v1/sessions/${id}/messages`);
  const [user] = (await answer.json()).messages;
  assert.deepEqual(user.parts.map(part => part.type).sort(), ['file', 'text']);
  assert.deepEqual(user.metadata, { mood: 'fine' });
  assert.equal(user.id, one.chat.messages[0].id);
});

test('a body alone is enough', async () => {
  const id = newId('single');
  const message = { id: newId('m'), role: 'user', parts: [{ type: 'text', text: 'hello' }] };
  const answer = await fetch(api, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id, message }),
  });
  const frames = (await answer.text()).split('\n\n').filter(frame => frame.startsWith('data: '));
  assert.equal(frames.pop(), 'data: [DONE]');
  await checkStream({ chunks: frames.map(frame => JSON.parse(frame.slice(6))), done: true });
});

// A server over standard input and output that speaks the newer generation of the protocol by hand:
// a call that lacks an answer ends with a question, and goes on from what it is given back.
// Argument: the file to write down what it was asked.
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [, , ledgerFile] = process.argv;
const note = (entry) => appendFileSync(ledgerFile, JSON.stringify({ pid: process.pid, ...entry }) + '\n');

const ask = {
  resultType: 'input_required',
  requestState: 'the order 7',
  inputRequests: {
    size: {
      method: 'elicitation/create',
      params: {
        mode: 'form',
        message: 'Which size?',
        requestedSchema: {
          type: 'object',
          properties: { size: { type: 'string', enum: ['s', 'm', 'l'] } },
          required: ['size'],
        },
      },
    },
  },
};

const methods = {
  'server/discover': () => ({
    resultType: 'complete',
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: {} },
    serverInfo: { name: 'asking', version: '1.0.0' },
    ttlMs: 0,
    cacheScope: 'private',
  }),
  'tools/list': () => ({
    resultType: 'complete',
    tools: [{ name: 'order', description: 'Orders a shirt', inputSchema: { type: 'object' } }],
    ttlMs: 0,
    cacheScope: 'private',
  }),
  'tools/call': ({ inputResponses: answers, requestState: state }) => {
    note({ tool: 'order', answers, state });
    if (!answers) return ask;
    const { action, content } = answers.size;
    const text = action === 'accept' ? `${state} in ${content.size}` : `no order: ${action}`;
    return { resultType: 'complete', content: [{ type: 'text', text }] };
  },
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const known = methods[method];
  const answer = known
    ? { result: known(params ?? {}) }
    : { error: { code: -32601, message: `there is no method ${method} here` } };
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\n');
});

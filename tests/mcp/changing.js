// A server over standard input and output whose tools stand in a file and change with it, and which
// writes down what it was asked. Arguments: the file of tools, the file to write to.
import { appendFileSync, readFileSync, watchFile } from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [, , toolsFile, ledgerFile] = process.argv;
const tools = () => JSON.parse(readFileSync(toolsFile, 'utf8'));
const note = (entry) => appendFileSync(ledgerFile, JSON.stringify({ pid: process.pid, ...entry }) + '\n');
const text = (words) => ({ content: [{ type: 'text', text: words }] });

const server = new Server(
  { name: 'changing', version: '1.0.0' },
  { capabilities: { tools: { listChanged: true } } },
);

server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: tools() }));

server.setRequestHandler(CallToolRequestSchema, async (request, extra) => {
  const { name, arguments: input, _meta: meta } = request.params;
  note({ tool: name, input, key: meta['steadfast/key'] });
  if (!tools().some((tool) => tool.name === name)) {
    throw new Error(`there is no tool ${name} here`);
  }
  if (name.startsWith('ask')) {
    const answer = await server.elicitInput({
      message: 'Which size?',
      requestedSchema: {
        type: 'object',
        properties: {
          size: { type: 'string', enum: ['s', 'm', 'l'] },
          gift: { type: 'boolean', default: true },
        },
        required: ['size'],
      },
    }, { signal: extra.signal, timeout: 600_000 });
    return text(`answered ${JSON.stringify(answer)}`);
  }
  if (name.startsWith('slow')) {
    await new Promise((resolve) => {
      extra.signal.addEventListener('abort', () => {
        note({ tool: name, cancelled: true });
        resolve();
      });
    });
  }
  return text(`${name} was called`);
});

watchFile(toolsFile, { interval: 50 }, () => server.sendToolListChanged());
await server.connect(new StdioServerTransport());
note({ started: true });

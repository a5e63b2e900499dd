import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The page and the node have one origin, so nothing has to be allowed across origins.
const target = process.env.STEADFAST_URL ?? 'http://127.0.0.1:7070';

// This proxy would keep a stream open whose node has died: the page shall see that it broke.
const configure = proxy =>
  proxy.on('proxyRes', (answer, _request, response) =>
    answer.on('close', () => answer.complete || response.destroy()),
  );

export default defineConfig({
  plugins: [react()],
  server: { proxy: { '/v1': { target, configure } } },
});

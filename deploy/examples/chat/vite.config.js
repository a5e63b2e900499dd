import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The page and the node have one origin, so nothing has to be allowed across origins.
const node = process.env.STEADFAST_URL ?? 'http://127.0.0.1:7070';

export default defineConfig({
  plugins: [react()],
  server: { proxy: { '/v1': node } },
});

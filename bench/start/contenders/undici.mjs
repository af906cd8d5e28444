/** The least that sends the first request with undici. Not TypeScript, as Node would first load what strips its types. */

import { request } from 'undici';

const { body } = await request(`${process.argv[2]}/v1/report/export`, {
  method: 'POST',
  headers: { 'content-type': 'application/json', 'x-service-api-key': 'bench' },
  body: '{"filter":{"date":{"gte":"2026-11-20T00:00:00Z"}},"format":"XML","container":"NONE"}',
});
await body.dump();

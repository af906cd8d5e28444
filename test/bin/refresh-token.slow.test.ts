/** An export with a refresh token of oidc-provider, which revokes a consent when a token is used twice. */

import { globSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Provider from 'oidc-provider';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { listen } from '../support/service/loopback.ts';
import { aDirectory, jsonOf, readManifest, run, start } from '../support/process/command-line.ts';
import { describedWithTokens } from '../support/service/token-server.ts';

const client = { client_id: 'the exporter', client_secret: 'S3cr3t+of/the=client "x" 0123456789' };
const pages = 12;

async function serve(listener: RequestListener): Promise<string> {
  const server = await listen(createServer(listener));
  onTestFinished(server[Symbol.asyncDispose]);
  return server.url;
}

/** An authorization server whose access tokens live for a second, and an API with them. A held request never ends. */
async function startServers() {
  let provider: Provider | undefined;
  const held = { page: (_page: number) => false };
  const counts = { tokens: 0, pages: [] as number[], errors: 0, held: 0 };
  const login = await serve((request, response) => {
    counts.tokens += 1;
    provider?.callback()(request, response);
  });
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  provider = new Provider(login, {
    clients: [
      { ...client, grant_types: ['authorization_code', 'refresh_token'], redirect_uris: ['https://exporter.example/'] },
    ],
    features: { devInteractions: { enabled: false } },
    rotateRefreshToken: true,
    findAccount: (_: unknown, accountId: string) => ({ accountId, claims: async () => ({ sub: accountId }) }),
    ttl: { AccessToken: 1, RefreshToken: 3_600, Grant: 3_600, IdToken: 3_600 },
  });
  provider.on('grant.error', () => (counts.errors += 1));
  const issuer = provider;
  const service = await serve((request, response) => {
    void (async () => {
      const token = request.headers.authorization?.replace('Bearer ', '') ?? '';
      const page = Number(new URL(request.url ?? '', login).searchParams.get('cursor') ?? 1);
      if (held.page(page)) {
        counts.held += 1;
        return;
      }
      const isAccepted = (await issuer.AccessToken.find(token)) !== undefined;
      if (isAccepted) counts.pages.push(page);
      await sleep(200);
      response.writeHead(isAccepted ? 200 : 401, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ data: [{ id: page }], next: page < pages ? `${page + 1}` : null }));
    })();
  });
  return {
    counts,
    held,
    settings: {
      services: { acme: { baseUrl: service, api: describedWithTokens(login) } },
      exports: [{ name: 'reports', pagesPerInvocation: 1 }],
    },
    /** The token that a person stores after a consent. */
    consent: async (): Promise<string> => {
      const grant = new issuer.Grant({ accountId: 'ann', clientId: client.client_id });
      grant.addOIDCScope('openid offline_access');
      const fields = {
        accountId: 'ann',
        client: await issuer.Client.find(client.client_id),
        grantId: await grant.save(),
        gty: 'authorization_code',
        scope: 'openid offline_access',
        claims: {},
      };
      const token = await new issuer.RefreshToken(fields).save();
      return JSON.stringify({ client_secret: client.client_secret, refresh_token: token });
    },
  };
}

async function anExport() {
  const servers = await startServers();
  const directory = await aDirectory();
  const file = join(directory, 'settings.json');
  const out = join(directory, 'exports');
  writeFileSync(file, JSON.stringify(servers.settings));
  const words = ['local', '--settings', file, '--out', out, '--json', '--max-attempts', '2'];
  const env = (secret: string) => ({ REPORT_EXPORT_API_KEY: secret });
  return {
    ...servers,
    run: (secret: string) => run(words, env(secret)),
    /** Kills the process when it waits for a response that is held. */
    killWhenHeld: async (secret: string): Promise<void> => {
      const before = servers.counts.held;
      const { process, ended } = start(words, env(secret));
      await expect.poll(() => servers.counts.held, { timeout: 30_000, interval: 10 }).toBe(before + 1);
      process.kill('SIGKILL');
      await ended;
    },
    published: async () => {
      const [path = '', ...others] = globSync('reports/*/*/manifest.json', { cwd: out });
      expect(others).toEqual([]);
      expect(await run(['verify', '--out', out], env('x'))).toMatchObject({ status: 0 });
      return (await readManifest(join(out, path))).pages.length;
    },
  };
}

describe('an export with a refresh token that rotates', () => {
  it('keeps the consent when it is killed between pages, and publishes each page once', async () => {
    const { killWhenHeld, run: runOnce, consent, held, counts, published } = await anExport();
    const secret = await consent();
    for (const page of [1, 5, 9]) {
      held.page = (number) => number === page;
      await killWhenHeld(secret);
    }
    held.page = () => false;
    expect(jsonOf(await runOnce(secret))).toMatchObject({ status: 'completed', pages, reports: pages });
    expect(new Set(counts.pages).size).toBe(pages);
    expect(counts.tokens).toBeGreaterThan(3);
    expect(counts.errors).toBe(0);
    expect(await published()).toBe(pages);
  });
});

/** The script that audits the packages, against registries with and without an advisory service. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { root, userVariables } from '../support/package/installation.ts';
import { listen } from '../support/service/loopback.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

type Advisories = Readonly<Record<string, readonly object[]>>;

const advisory = (severity: string, title: string, versions = '>=0.0.0') => ({
  id: 1,
  url: 'https://example.com/advisory',
  title,
  severity,
  vulnerable_versions: versions,
});
const control: Advisories = { minimist: [advisory('critical', 'Prototype Pollution', '<0.2.4')] };

/** Runs the script with a registry that answers with the advisories of the given packages, or with a status. */
async function audit(answer: Advisories | number) {
  await using directory = await temporaryDirectory();
  await using server = await listen(
    createServer((request, response) => {
      if (!request.url?.endsWith('/advisories/bulk') || typeof answer === 'number') {
        response.writeHead(typeof answer === 'number' ? answer : 404).end('{}');
        return;
      }
      void bodyOf(request).then((body) => {
        const names = Object.keys(JSON.parse(body));
        response.end(
          JSON.stringify(Object.fromEntries(Object.entries(answer).filter(([name]) => names.includes(name)))),
        );
      });
    }),
  );
  const script = spawn('bash', [join(root, '.ci/check-advisories')], {
    env: {
      ...userVariables,
      HOME: directory.path,
      npm_config_registry: `${server.url}/`,
      npm_config_cache: join(directory.path, 'cache'),
    },
  });
  const [output, [status]] = await Promise.all([
    Promise.all([text(script.stdout), text(script.stderr)]),
    once(script, 'close') as Promise<[number]>,
  ]);
  return { status, output: output.join('') };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  if (request.headers['content-encoding'] !== 'gzip') return await text(request);
  return gunzipSync(Buffer.concat(await request.toArray())).toString();
}

describe('the audit of the packages', () => {
  it('passes if nothing is known of any package', async () => {
    expect(await audit(control)).toMatchObject({
      status: 0,
      output: expect.stringContaining('found 0 vulnerabilities'),
    });
  });

  it.each([
    ['that is installed with this package', 'undici'],
    ['that only the functions contain', '@aws-lambda-powertools/logger'],
  ])('fails if a package is vulnerable %s', async (_, name) => {
    const { status, output } = await audit({ ...control, [name]: [advisory('high', 'Request smuggling')] });
    expect(status).toBe(1);
    expect(output).toMatch(new RegExp(`^${name} [^]*Severity: high\nRequest smuggling`, 'm'));
  });

  it.each([
    ['has no advisory service', 404],
    ['has a broken one', 500],
    ['answers every question with none', {}],
  ])('does not pass if the registry %s', async (_, answer: Advisories | number) => {
    const { status, output } = await audit(answer);
    expect(status).toBe(2);
    expect(output).toContain('Error: Nothing was audited: the registry reports no vulnerability of minimist 0.0.8.');
  });
});

/** The script that audits the packages, against registries with and without an advisory service. */

import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { root, runNode } from '../../support/package/installation.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

type Advisories = Readonly<Record<string, readonly object[]>>;

const advisory = (severity: string, title: string, versions = '>=0.0.0') => ({
  id: 1,
  url: 'https://example.com/advisory',
  title,
  severity,
  vulnerable_versions: versions,
});
const control: Advisories = { minimist: [advisory('critical', 'Prototype Pollution', '<0.2.4')] };

/** Runs the script with a registry that answers each question about advisories with those of the packages in it. */
async function audit(answer: Advisories | number, variables: Readonly<Record<string, string>> = {}) {
  await using directory = await temporaryDirectory();
  const questions: string[][] = [];
  const server = createServer((request, response) => {
    if (!request.url?.endsWith('/advisories/bulk') || typeof answer === 'number') {
      response.writeHead(typeof answer === 'number' ? answer : 404).end('{}');
      return;
    }
    void bodyOf(request).then((body) => {
      const names = Object.keys(JSON.parse(body));
      questions.push(names);
      response.end(JSON.stringify(Object.fromEntries(Object.entries(answer).filter(([name]) => names.includes(name)))));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const output = join(directory.path, 'output');
  await writeFile(output, '');
  const outcome = await runNode(root, [join(root, 'bin/check-advisories.ts')], {
    variables: {
      HOME: directory.path,
      npm_config_registry: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
      npm_config_cache: join(directory.path, 'cache'),
      GITHUB_OUTPUT: output,
      ...variables,
    },
  });
  server.close();
  server.closeAllConnections();
  return { ...outcome, questions, written: await readFile(output, 'utf8') };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  if (request.headers['content-encoding'] !== 'gzip') return await text(request);
  return gunzipSync(Buffer.concat(await request.toArray())).toString();
}

describe('the audit of the packages', () => {
  it('passes if nothing is known of any package, users receive it or not', async () => {
    const { status, stdout, written, questions } = await audit(control);
    expect({ status, written }).toEqual({ status: 0, written: 'outcome=passed\n' });
    expect(stdout).toBe('No high or critical vulnerability is known in what users receive.\n');
    expect(questions[0]).toEqual(['minimist']);
    expect(questions[1]).toEqual(expect.arrayContaining(['undici', '@aws-lambda-powertools/logger', 'vitest']));
  });

  it.each([
    ['that is installed with this package', 'undici'],
    ['that only the functions contain', '@aws-lambda-powertools/logger'],
  ])('fails if a package is vulnerable %s', async (_, name) => {
    const { status, stdout, written } = await audit({ ...control, [name]: [advisory('high', 'Request smuggling')] });
    expect({ status, written }).toEqual({ status: 1, written: 'outcome=vulnerable\n' });
    expect(stdout).toMatch(
      new RegExp(
        `^Error: ${name} \\d+\\S+ in node_modules/${name} \\(users receive it\\), high: Request smuggling, https:`,
      ),
    );
  });

  it('warns of vulnerabilities that are minor or in tools, and passes', async () => {
    const { status, stdout, written } = await audit({
      ...control,
      undici: [advisory('moderate', 'Slow')],
      vitest: [advisory('critical', 'Remote code execution')],
    });
    expect({ status, written }).toEqual({ status: 0, written: 'outcome=passed\n' });
    expect(stdout).toMatch(/^Warning: undici .* \(users receive it\), moderate: Slow/m);
    expect(stdout).toMatch(/^Warning: vitest .* \(for development only\), critical: Remote code execution/m);
  });

  it.each([
    ['has no advisory service', 404, 'npm audit has no result'],
    ['has a broken one', 500, 'npm audit has no result'],
    ['answers every question with none', {}, 'the registry knows no advisory for minimist 0.0.8'],
  ])('does not count as passed if the registry %s', async (_, answer: Advisories | number, reason) => {
    const { status, stdout, written } = await audit(answer);
    expect({ status, written }).toEqual({ status: 0, written: 'outcome=not-audited\n' });
    expect(stdout).toMatch(new RegExp(`^Warning: Not audited: ${reason}`));
    expect(stdout).not.toContain('No high or critical');
  });

  it('annotates a GitHub workflow', async () => {
    const { stdout } = await audit(404, { GITHUB_ACTIONS: 'true' });
    expect(stdout).toMatch(/^::warning::Not audited: npm audit has no result/);
  });
});

/** The contenders: how each is started and restarted, what it checks, and how a reader finds its output. */

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type OutputReader,
  readAirbyteMessages,
  readDltLoads,
  readManifests,
  readPageFiles,
  readSingerRecords,
} from './stored-pages.ts';
import type { Environment, MissingEnvironment } from './virtual-environments.ts';

export interface Peer {
  readonly name: string;
  /** How it checks that a page is complete and well-formed. */
  readonly checks: string;
  /** What tells a reader that the export is complete. */
  readonly completionMark: string;
  readonly readOutput: OutputReader;
  readonly command: (baseUrl: string, out: string) => readonly [string, ...string[]];
}

export const reportExporter = 'report-exporter';

/** The contenders that can run here, and why the others cannot. */
export function findPeers(environments: ReadonlyMap<string, Environment | MissingEnvironment>): {
  readonly peers: readonly Peer[];
  readonly missing: readonly string[];
} {
  const missing: string[] = [];
  const pythonPeer = (
    packages: readonly string[],
    peer: Omit<Peer, 'command'>,
    command: (pythons: readonly string[], baseUrl: string, out: string) => readonly [string, ...string[]],
  ): readonly Peer[] => {
    const pythons: string[] = [];
    for (const name of packages) {
      const environment = environments.get(name) ?? { reason: `${name} is not in requirements.txt` };
      if ('reason' in environment) {
        missing.push(`${peer.name} is left out: ${environment.reason}.`);
        return [];
      }
      pythons.push(environment.python);
    }
    return [{ ...peer, command: (baseUrl, out) => command(pythons, baseUrl, out) }];
  };
  const airbyteCommand =
    (script: string) =>
    ([python = '']: readonly string[], baseUrl: string, out: string) =>
      [python, pathOf('python/airbyte_resume.py'), pathOf(script), baseUrl, out] as const;

  const peers: readonly Peer[] = [
    {
      name: reportExporter,
      checks: 'XML',
      completionMark: 'the manifest',
      readOutput: readManifests,
      command: (baseUrl, out) => [process.execPath, pathOf('../floor/local-export.ts'), baseUrl, out],
    },
    {
      name: 'got paginate',
      checks: 'no',
      completionMark: 'none',
      readOutput: readPageFiles,
      command: (baseUrl, out) => [process.execPath, pathOf('got-pages.ts'), baseUrl, out],
    },
    ...pythonPeer(
      ['dlt'],
      { name: 'dlt', checks: 'no', completionMark: '`_dlt_loads`', readOutput: readDltLoads },
      ([python = ''], baseUrl, out) => [python, pathOf('python/dlt_pages.py'), baseUrl, out],
    ),
    ...pythonPeer(
      ['singer-sdk', 'target-jsonl'],
      { name: 'singer-sdk, target-jsonl', checks: 'no', completionMark: 'none', readOutput: readSingerRecords },
      ([tap = '', target = ''], baseUrl, out) => ['bash', pathOf('python/singer.sh'), tap, target, baseUrl, out],
    ),
    ...pythonPeer(
      ['airbyte-cdk'],
      {
        name: 'airbyte-cdk, HttpStream',
        checks: 'no',
        completionMark: 'status COMPLETE',
        readOutput: readAirbyteMessages,
      },
      airbyteCommand('python/airbyte_source.py'),
    ),
    ...pythonPeer(
      ['airbyte-cdk'],
      {
        name: 'airbyte-cdk, XmlDecoder',
        checks: 'XML (expat)',
        completionMark: 'status COMPLETE',
        readOutput: readAirbyteMessages,
      },
      airbyteCommand('python/airbyte_manifest.py'),
    ),
  ];
  return { peers, missing };
}

function pathOf(file: string): string {
  return join(fileURLToPath(new URL('.', import.meta.url)), file);
}

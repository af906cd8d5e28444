/** Who takes part: how each is started and started again, what it checks, and how a reader finds what it left. */

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { airbyteMessages, dltLoads, type Look, manifests, pageFiles, singerRecords } from './stored-pages.ts';
import type { Environment, Missing } from './virtual-environments.ts';

export interface Peer {
  readonly name: string;
  /** How it checks that a page is whole and well-formed. */
  readonly checks: string;
  /** What tells a reader that the export is complete. */
  readonly mark: string;
  readonly look: Look;
  readonly command: (baseUrl: string, out: string) => readonly [string, ...string[]];
}

export const ours = 'report-exporter';

/** Those that can run here, and for the others why not. */
export function peers(environments: ReadonlyMap<string, Environment | Missing>): {
  readonly present: readonly Peer[];
  readonly absent: readonly string[];
} {
  const absent: string[] = [];
  const inPython = (
    deps: readonly string[],
    peer: Omit<Peer, 'command'>,
    command: (pythons: readonly string[], baseUrl: string, out: string) => readonly [string, ...string[]],
  ): readonly Peer[] => {
    const pythons: string[] = [];
    for (const need of deps) {
      const found = environments.get(need) ?? { missing: `${need} stands in no requirements` };
      if ('missing' in found) {
        absent.push(`${peer.name} is left out: ${found.missing}.`);
        return [];
      }
      pythons.push(found.python);
    }
    return [{ ...peer, command: (baseUrl, out) => command(pythons, baseUrl, out) }];
  };
  const airbyte =
    (script: string) =>
    ([python = '']: readonly string[], baseUrl: string, out: string) =>
      [python, here('python/airbyte_resume.py'), here(script), baseUrl, out] as const;

  const present: readonly Peer[] = [
    {
      name: ours,
      checks: 'XML',
      mark: 'the manifest',
      look: manifests,
      command: (baseUrl, out) => [process.execPath, here('../floor/local-export.ts'), baseUrl, out],
    },
    {
      name: 'got paginate',
      checks: 'no',
      mark: 'nothing',
      look: pageFiles,
      command: (baseUrl, out) => [process.execPath, here('got-pages.ts'), baseUrl, out],
    },
    ...inPython(
      ['dlt'],
      { name: 'dlt', checks: 'no', mark: '`_dlt_loads`', look: dltLoads },
      ([python = ''], baseUrl, out) => [python, here('python/dlt_pages.py'), baseUrl, out],
    ),
    ...inPython(
      ['singer-sdk', 'target-jsonl'],
      { name: 'singer-sdk, target-jsonl', checks: 'no', mark: 'nothing', look: singerRecords },
      ([tap = '', target = ''], baseUrl, out) => ['bash', here('python/singer.sh'), tap, target, baseUrl, out],
    ),
    ...inPython(
      ['airbyte-cdk'],
      { name: 'airbyte-cdk, HttpStream', checks: 'no', mark: 'status COMPLETE', look: airbyteMessages },
      airbyte('python/airbyte_source.py'),
    ),
    ...inPython(
      ['airbyte-cdk'],
      { name: 'airbyte-cdk, XmlDecoder', checks: 'XML (expat)', mark: 'status COMPLETE', look: airbyteMessages },
      airbyte('python/airbyte_manifest.py'),
    ),
  ];
  return { present, absent };
}

function here(file: string): string {
  return join(fileURLToPath(new URL('.', import.meta.url)), file);
}

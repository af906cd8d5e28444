/** What the local export and its peers lose or duplicate when they are killed at random moments and restarted. */

import type { Benchmark, Table } from '../harness/benchmark.ts';
import { findPeers, type Peer } from './contenders.ts';
import { type Damage, type KillPlan, measureDamage } from './killed-runs.ts';
import { prepareEnvironments } from './virtual-environments.ts';

const fullPlan: KillPlan = { runs: 10, maxKills: 3, pages: 60, pageBytes: 100_000, seed: 'peers' };
const quickPlan: KillPlan = { ...fullPlan, runs: 1, maxKills: 1, pages: 10 };

export const peersKilled: Benchmark = {
  name: 'peers-killed',
  title: 'What is lost or duplicated when a run is killed',
  async run({ quick, reportProgress }) {
    const { peers, missing } = findPeers(await prepareEnvironments(!quick, reportProgress));
    const plan = quick ? quickPlan : fullPlan;
    const damages = new Map<string, Damage>();
    for (const peer of peers) damages.set(peer.name, await measureDamage(peer, plan, reportProgress));
    return {
      tables: [damageTable(peers, damages, plan)],
      measured: Object.fromEntries(damages),
      notes: [
        ...missing,
        'Lost, duplicated and torn pages are counted at the end, as the contender documents reading: by its mark of completion, if it has one.',
        'Partial export, torn pages: the number of kills after which a listing of the output showed some pages but not all, or a torn page.',
        'SIGKILL ends processes; what they wrote stays in the page cache. It does not simulate a power loss.',
      ],
    };
  },
};

function damageTable(peers: readonly Peer[], damages: ReadonlyMap<string, Damage>, { runs, pages }: KillPlan): Table {
  return {
    title: `Killed at random moments and restarted: ${runs} runs of ${pages} pages`,
    columns: [
      'contender',
      'kills',
      'repeated requests',
      'lost',
      'duplicated',
      'torn',
      'failed starts',
      'after a kill: partial export',
      'torn pages',
      'mark of completion',
      'partial export with the mark',
    ],
    rows: peers.flatMap(({ name, completionMark }) => {
      const damage = damages.get(name);
      if (damage === undefined) return [];
      const { kills, requests, lost, duplicated, torn, failedStarts, partialListed, tornListed } = damage;
      const repeated = requests - runs * pages;
      const counts = [kills, repeated, lost, duplicated, torn, failedStarts, partialListed, tornListed];
      const partialPublished = completionMark === 'none' ? '-' : String(damage.partialPublished);
      return [[name, ...counts.map(String), completionMark, partialPublished]];
    }),
  };
}

/** What the local export and its peers lose or double when they are killed at random moments and started again. */

import type { Bench, Table } from '../harness/benchmark.ts';
import { type Peer, peers } from './contenders.ts';
import { type Damage, type KillPlan, killedWalks } from './killed-runs.ts';
import { virtualEnvironments } from './virtual-environments.ts';

const plan: KillPlan = { walks: 10, kills: 3, pages: 60, pageBytes: 100_000, seed: 'peers' };
const quickPlan: KillPlan = { ...plan, walks: 1, kills: 1, pages: 10 };

export const peersKilled: Bench = {
  name: 'peers-killed',
  title: 'What is lost or doubled when the walk is killed',
  async run({ quick, say }) {
    const { present, absent } = peers(await virtualEnvironments(!quick, say));
    const killed = new Map<string, Damage>();
    for (const peer of present) killed.set(peer.name, await killedWalks(peer, quick ? quickPlan : plan, say));
    return {
      tables: [damageTable(present, killed, quick ? quickPlan : plan)],
      measured: Object.fromEntries(killed),
      notes: [
        ...absent,
        'Lost, doubled and torn are counted at the end, for who reads as the contender documents it: by its mark of completeness, where it has one.',
        'Half an export, torn pages: the number of kills behind which a listing of the output showed some pages but not all, or what is no whole page.',
        'SIGKILL ends processes; what they wrote stays in the page cache. It is no power cut.',
      ],
    };
  },
};

function damageTable(present: readonly Peer[], killed: ReadonlyMap<string, Damage>, { walks, pages }: KillPlan): Table {
  return {
    title: `Killed at random moments and started again: ${walks} walks of ${pages} pages`,
    columns: [
      'contender',
      'kills',
      'asked for again',
      'lost',
      'doubled',
      'torn',
      'failed starts',
      'after a kill: half an export',
      'torn pages',
      'mark of completeness',
      'half an export that bears it',
    ],
    rows: present.flatMap(({ name, mark }) => {
      const damage = killed.get(name);
      if (damage === undefined) return [];
      const { kills, asked, lost, doubled, torn, failedStarts, unfinishedListed, tornListed } = damage;
      const counts = [kills, asked - walks * pages, lost, doubled, torn, failedStarts, unfinishedListed, tornListed];
      return [[name, ...counts.map(String), mark, mark === 'nothing' ? '-' : String(damage.unfinishedPublished)]];
    }),
  };
}

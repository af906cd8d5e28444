/**
 * Walks that are killed at random moments and started again as their user would, until one comes to its end; what lies
 * on disk is looked at after each kill and at the end. The same moments, as parts of an undisturbed walk, for everyone.
 */

import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pageDocument } from '../harness/page-document.ts';
import { type PageService, startPageService } from '../harness/page-service.ts';
import { temporaryFolder } from '../harness/temporary-folder.ts';
import type { Peer } from './contenders.ts';
import { startPeer } from './peer-process.ts';
import type { Found } from './stored-pages.ts';

export interface KillPlan {
  readonly walks: number;
  /** At most so many of them in a walk: one that has ended cannot be killed. */
  readonly kills: number;
  readonly pages: number;
  readonly pageBytes: number;
  readonly seed: string;
}

/** What came of all walks of one contender. */
export interface Damage {
  kills: number;
  /** Starts that ended with an error of their own. */
  failedStarts: number;
  /** Requests for a page. */
  asked: number;
  /** At the end, for who reads as documented: pages missing, pages there once more, and what is no whole page. */
  lost: number;
  doubled: number;
  torn: number;
  /** Kills after which a listing showed a torn page, or some pages but not all. */
  tornListed: number;
  unfinishedListed: number;
  /** The same for who heeds the mark of completeness; as listed where there is none. */
  tornPublished: number;
  unfinishedPublished: number;
}

const none: Damage = {
  kills: 0,
  failedStarts: 0,
  asked: 0,
  lost: 0,
  doubled: 0,
  torn: 0,
  tornListed: 0,
  unfinishedListed: 0,
  tornPublished: 0,
  unfinishedPublished: 0,
};

/** A page takes some 20 ms, a quarter of it while its body arrives: a walk is long enough for kills to meet all of it. */
const service = { latencyMs: 15, bodyMs: 5, numbered: true };

export async function killedWalks(peer: Peer, plan: KillPlan, say: (line: string) => void): Promise<Damage> {
  const damage: Damage = { ...none };
  const pace = await undisturbed(peer, plan);
  for (let walk = 1; walk <= plan.walks; walk += 1) {
    say(`peers, killed: ${peer.name}, walk ${walk} of ${plan.walks}`);
    await killedWalk(peer, plan, walk, pace, damage);
  }
  return damage;
}

async function killedWalk(peer: Peer, plan: KillPlan, walk: number, pace: Pace, damage: Damage): Promise<void> {
  await inFolder(async (out) => {
    const document = pageDocument(plan.pageBytes, true);
    let onFirst = () => {};
    await using served = await startPageService({ ...service, ...plan }, () => {
      damage.asked += 1;
      onFirst();
    });
    for (let kill = 1, fails = 0; ; kill += 1) {
      const { ended, kill: strike } = startPeer(peer, served.baseUrl, out);
      const { promise: first, resolve } = Promise.withResolvers<void>();
      onFirst = resolve;
      const over = new AbortController();
      if (kill <= plan.kills) {
        const { signal } = over;
        // A start that only puts away what is there asks for nothing, and is killed all the same.
        void Promise.race([first, sleep(2 * pace.startMs, undefined, { signal })])
          .then(() => sleep(chance(`${plan.seed}/${walk}/${kill}`) * pace.walkMs, undefined, { signal }))
          .then(strike, () => {});
      }
      const { code, err } = await ended;
      over.abort();
      const { listed, published = listed } = await peer.look(out, document);
      if (code === 0) {
        count(damage, published, plan.pages);
        return;
      }
      if (code === null) {
        damage.kills += 1;
        damage.tornListed += Number(listed.includes('torn'));
        damage.unfinishedListed += Number(isUnfinished(listed, plan.pages));
        damage.tornPublished += Number(published.includes('torn'));
        damage.unfinishedPublished += Number(isUnfinished(published, plan.pages));
      } else {
        damage.failedStarts += 1;
        fails += 1;
        if (fails === 3) throw new Error(`${peer.name} does not start again after a kill: ${err.slice(-2_000)}`);
      }
    }
  });
}

function count(damage: Damage, found: readonly Found[], pages: number): void {
  const whole = found.filter((one) => one !== 'torn');
  const different = new Set(whole).size;
  damage.lost += pages - different;
  damage.doubled += whole.length - different;
  damage.torn += found.length - whole.length;
}

function isUnfinished(found: readonly Found[], pages: number): boolean {
  return found.length > 0 && new Set(found.filter((one) => one !== 'torn')).size < pages;
}

interface Pace {
  /** From its start to its first request. */
  readonly startMs: number;
  /** From there to its end. */
  readonly walkMs: number;
}

async function undisturbed(peer: Peer, plan: KillPlan): Promise<Pace> {
  return await inFolder(async (out) => {
    let firstAt: number | undefined;
    await using served: PageService = await startPageService({ ...service, ...plan }, () => {
      firstAt ??= performance.now();
    });
    const startedAt = performance.now();
    const { code, err } = await startPeer(peer, served.baseUrl, out).ended;
    const endedAt = performance.now();
    if (code !== 0 || firstAt === undefined) throw new Error(`${peer.name} ended with ${code}: ${err.slice(-2_000)}`);
    return { startMs: firstAt - startedAt, walkMs: endedAt - firstAt };
  });
}

async function inFolder<Result>(act: (out: string) => Promise<Result>): Promise<Result> {
  const out = await temporaryFolder(join(process.cwd(), '.bench-'));
  try {
    return await act(out);
  } finally {
    await rm(out, { recursive: true, force: true });
  }
}

/** From 0 to 1, the same for the same words. */
function chance(words: string): number {
  return createHash('sha256').update(words).digest().readUInt32BE() / 2 ** 32;
}

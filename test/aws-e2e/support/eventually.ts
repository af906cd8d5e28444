import { setTimeout as sleep } from 'node:timers/promises';

/** Asks again and again, until there is an answer. @throws if there is none within a minute and a half */
export async function eventually<Answer>(what: string, ask: () => Promise<Answer | undefined>): Promise<Answer> {
  for (const until = Date.now() + 90_000; ; await sleep(50)) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (Date.now() > until) throw new Error(`Waited in vain for ${what}`);
  }
}

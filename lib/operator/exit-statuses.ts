/** What a shell is told: done, failed, wrong usage or settings, interrupted. */
export const exitStatuses = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

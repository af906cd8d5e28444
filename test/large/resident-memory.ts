/**
 * What a process takes of the machine's memory, for a process to ask about itself.
 *
 * Samples tell of one stretch of work, but miss what comes and goes between two of them; the kernel's own high-water mark
 * misses nothing, but knows no beginning. Who begins from a low idle state may take the greater of the two.
 */

import { readFileSync } from 'node:fs';

export interface MemoryWatch {
  /** The highest so far, in bytes. */
  peak(): number;
  stop(): void;
}

/** Looks every few milliseconds, as often as the event loop lets it. */
export function watchMemory(): MemoryWatch {
  let sampled = residentBytes();
  const timer = setInterval(() => {
    sampled = Math.max(sampled, residentBytes());
  }, 5);
  return {
    peak: () => Math.max(sampled, residentBytes(), mostResidentBytes()),
    stop: () => clearInterval(timer),
  };
}

export const residentBytes = (): number => process.memoryUsage.rss();

/** Since the process began. `maxRSS` also counts what it was forked from; where the kernel knows better, it is asked. */
export function mostResidentBytes(): number {
  try {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    if (kibibytes !== undefined) return Number(kibibytes) * 1_024;
  } catch {
    // No /proc.
  }
  return process.resourceUsage().maxRSS * 1_024;
}

/**
 * How much of the machine's memory this process uses.
 *
 * Samples cover one period but miss what comes and goes between two of them. The kernel's high-water mark misses
 * nothing but covers the whole life of the process. The greater of the two is right if the process was small before the
 * period.
 */

import { readFileSync } from 'node:fs';

export interface MemoryWatch {
  /** The highest value so far, in bytes. */
  peak(): number;
  stop(): void;
}

/** Samples every 5 ms, if the event loop is free. */
export function watchMemory(): MemoryWatch {
  let sampled = residentBytes();
  const timer = setInterval(() => {
    sampled = Math.max(sampled, residentBytes());
  }, 5);
  return {
    peak: () => Math.max(sampled, residentBytes(), maxResidentBytes()),
    stop: () => clearInterval(timer),
  };
}

export const residentBytes = (): number => process.memoryUsage.rss();

/** The high-water mark of this process. `maxRSS` includes the parent before the fork, so /proc comes first. */
export function maxResidentBytes(): number {
  try {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    if (kibibytes !== undefined) return Number(kibibytes) * 1_024;
  } catch {
    // No /proc on this system.
  }
  return process.resourceUsage().maxRSS * 1_024;
}

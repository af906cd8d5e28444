/** A history in words, for people: when, who, what. */

import type { Line } from '../world/world.ts';
import type { History } from './history.ts';

/** One line for each thing that happened, with the virtual time since the beginning. */
export function timelineOf({ lines, start }: History): string {
  const width = Math.min(44, Math.max(...lines.map(({ who }) => who.length), 0));
  return lines.map((line) => `${elapsed(line, start)}  ${line.who.padEnd(width)}  ${line.what}`).join('\n');
}

function elapsed({ at }: Line, start: number): string {
  const text = new Date(Math.max(0, at - start)).toISOString();
  const hours = String(Math.floor((at - start) / 3_600_000)).padStart(2, '0');
  return `${hours}${text.slice(13, 23)}`;
}

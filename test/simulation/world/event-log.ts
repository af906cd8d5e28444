/** The event log of a history: when, who, what. */

export interface LogLine {
  readonly at: number;
  /** An execution, a process, `scheduler`, `operator`, `event bus`, `FAULT` or `VIOLATION`. */
  readonly actor: string;
  readonly message: string;
}

/** One line per event, beginning with the virtual time since `start` as `hh:mm:ss.mmm`. */
export function formatEventLog(lines: readonly LogLine[], start: number): string {
  const width = Math.min(44, Math.max(...lines.map(({ actor }) => actor.length), 0));
  return lines.map(({ at, actor, message }) => `${elapsed(at - start)}  ${actor.padEnd(width)}  ${message}`).join('\n');
}

function elapsed(ms: number): string {
  const minutesAndSeconds = new Date(Math.max(0, ms)).toISOString().slice(13, 23);
  const hours = String(Math.floor(ms / 3_600_000)).padStart(2, '0');
  return `${hours}${minutesAndSeconds}`;
}

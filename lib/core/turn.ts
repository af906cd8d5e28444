/** What travels from state to state, and what bounds one turn of the loop. */

/** Identity and small counters. The page log is the truth about everything else. */
export interface Turn {
  readonly export: string;
  readonly run: string;
  readonly segment: number;
  /** The page to fetch next. */
  readonly page: number;
  /** Turns this execution has made; one with a wait counts twice. */
  readonly turns: number;
  /** Long waits in a row before this turn. */
  readonly waits: number;
}

/** The bounds of one invocation. */
export interface Invocation {
  /** Interrupts the fetch and any waiting; the page is then not exported. */
  readonly signal?: AbortSignal | undefined;
  /** Until when short Retry-Afters may be sat out here, in milliseconds since the epoch; the others are for the Wait state. */
  readonly patientUntil?: number | undefined;
  /** How many pages may be on their way at once, where an invocation exports several; two by default. */
  readonly pagesInHand?: number | undefined;
  /** Whether there is time left to begin another page. Absent: there is. */
  readonly hasTime?: (() => boolean) | undefined;
}

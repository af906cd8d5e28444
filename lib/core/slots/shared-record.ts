/** A small record that all processes of a service share: its slots, or its rate. */

/** Reads are strongly consistent. */
export interface SharedRecord<Content> {
  /** A damaged record must not stop the exports: it counts as one without content. */
  read(): Promise<Versioned<Content>>;
  /**
   * Compare-and-set: writes `content` only if the record is still the one that was read. Resolves to the new record;
   * undefined if it was not written.
   */
  replace(read: Versioned<Content>, content: Content): Promise<Versioned<Content> | undefined>;
}

export interface Versioned<Content> {
  /** Changes with each write. Undefined: there is no record, or it is damaged. */
  readonly revision: string | undefined;
  /** Undefined: there is no record, or it is damaged. */
  readonly content: Content | undefined;
}

/** A record of this process alone. */
export function createMemoryRecord<Content>(): SharedRecord<Content> {
  let current: Versioned<Content> = { revision: undefined, content: undefined };
  let writes = 0;
  return {
    read: async () => current,
    async replace(read, content) {
      if (read.revision !== current.revision) return undefined;
      writes += 1;
      current = { revision: String(writes), content };
      return current;
    },
  };
}

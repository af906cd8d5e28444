import type { SharedRecord, Versioned } from '../ports.ts';

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

/** The in-memory adapters, on which many tests rely, implement the same contracts as the real ones. */

import { pageLogContract } from '../contracts/page-log-contract.ts';
import { pageStoreContract } from '../contracts/page-store-contract.ts';
import { createMemoryLog, createMemoryStore } from '../support/export/memory-adapters.ts';

pageStoreContract(
  'A page store in memory',
  () => {
    const store = createMemoryStore();
    return {
      store,
      read: async (key) => {
        const text = store.objects.get(key);
        return text === undefined ? undefined : Buffer.from(text, 'latin1');
      },
      list: async (prefix) => [...store.objects.keys()].filter((key) => key.startsWith(prefix)),
      cleanup: async () => {},
    };
  },
  { largeMiB: 1 },
);

pageLogContract('A page log in memory', () => ({ log: createMemoryLog(), cleanup: async () => {} }));

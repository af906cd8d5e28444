import { join } from 'node:path';
import { openRunNotes } from '../../../lib/local/sqlite/run-notes.ts';
import { incidentLogContract } from '../../contracts/incident-log-contract.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

incidentLogContract('The incidents in the run notes', async () => {
  const directory = await temporaryDirectory();
  const notes = openRunNotes(join(directory.path, 'state.sqlite'));
  return {
    log: notes.incidents,
    async cleanup() {
      notes.close();
      await directory.remove();
    },
  };
});

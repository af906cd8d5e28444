/** What the exports of a service share, in the state file. */

import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemRuntime } from '../../../lib/core/clock.ts';
import { slotsRecord } from '../../../lib/core/slots/page-slots.ts';
import { sharedRecordIn } from '../../../lib/local/sqlite/shared-record.ts';
import { openStateFile, type StateFile, stateFileIn } from '../../../lib/local/sqlite/state-file.ts';
import { sharedRecordContract } from '../../contracts/shared-record-contract.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';

let directory: TemporaryDirectory;
let state: StateFile;
beforeAll(async () => {
  directory = await temporaryDirectory();
  state = openStateFile(stateFileIn(directory.path), { create: true });
});
afterAll(async () => {
  state.close();
  await directory.remove();
});

sharedRecordContract((service, schema) => sharedRecordIn(state, service, schema, systemRuntime));

it('that is damaged counts as empty, and is replaced', async () => {
  const record = sharedRecordIn(state, 'damaged', slotsRecord, systemRuntime);
  await sharedRecordIn(state, 'damaged', slotsRecord as never, systemRuntime).replace(await record.read(), {} as never);
  const read = await record.read();
  expect(read.content).toBeUndefined();
  expect(await record.replace(read, { holders: [] })).toBeDefined();
});

/** Takes the lock of the export `argv[3]` in `argv[2]`, says whether it has it, and keeps it until it is killed. */

import { acquireExportLock } from '../../../lib/local/lock.ts';

const [, , directory = '', exportName = ''] = process.argv;
const lock = acquireExportLock(directory, exportName);
process.stdout.write(lock === undefined ? 'refused\n' : 'held\n');
if (lock !== undefined) setInterval(() => {}, 60_000);

/** Acquires the lock of export `argv[3]` in directory `argv[2]`, prints whether it did, and holds it until killed. */

import { acquireExportLock } from '../../../lib/local/lock.ts';

const [, , directory = '', exportName = ''] = process.argv;
const lock = acquireExportLock(directory, exportName);
process.stdout.write(lock === undefined ? 'denied\n' : 'acquired\n');
if (lock !== undefined) setInterval(() => {}, 60_000);

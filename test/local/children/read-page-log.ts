/** Looks into the page log `argv[2]`, in the midst of which it says so, and lets go of it a little later. */

import { DatabaseSync } from 'node:sqlite';

const [, , file = ''] = process.argv;
const database = new DatabaseSync(file);
database.exec('BEGIN');
database.prepare('SELECT count(*) FROM pages').get();
process.stdout.write('reading\n');
setTimeout(() => database.close(), 300);

/**
 * Opens and closes the page logs `0.sqlite` to `149.sqlite` in `argv[2]`, one every 8 ms from the moment `argv[3]` on, so that
 * several of these processes come to each new file at once.
 */

import { join } from 'node:path';
import { createSqlitePageLog } from '../../../lib/local/sqlite/page-log.ts';

const [, , directory = '', start = ''] = process.argv;
for (let index = 0; index < 150; index++) {
  while (Date.now() < Number(start) + index * 8);
  createSqlitePageLog(join(directory, `${index}.sqlite`)).close();
}

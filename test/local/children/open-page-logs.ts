/**
 * Opens and closes the page logs `0.sqlite` to `149.sqlite` in the directory `argv[2]`, one every 8 ms starting at the
 * time
 * `argv[3]`, so that several of these processes create each file at the same moment.
 */

import { join } from 'node:path';
import { createSqlitePageLog } from '../../support/export/directory-store.ts';

const [, , directory = '', start = ''] = process.argv;
for (let index = 0; index < 150; index++) {
  while (Date.now() < Number(start) + index * 8);
  createSqlitePageLog(join(directory, `${index}.sqlite`)).close();
}

/** Lambda's door to BeginRun. */

import { beginRunHandler } from '../lib/aws/begin-run-handler.ts';

export const handler = beginRunHandler(process.env);

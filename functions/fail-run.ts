/** Lambda's door to FailRun. */

import { failRunHandler } from '../lib/aws/fail-run-handler.ts';

export const handler = failRunHandler(process.env);

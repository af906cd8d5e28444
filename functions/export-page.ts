/** Lambda's door to ExportPage. */

import { exportPageHandler } from '../lib/aws/export-page-handler.ts';

export const handler = exportPageHandler(process.env);

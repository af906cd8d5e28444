/** The path of package.json. This module is in `bin` of a checkout, but in `dist/bin` of the package. */

import { createRequire } from 'node:module';

export const packageFile: string = createRequire(import.meta.url).resolve('report-exporter/package.json');

#!/usr/bin/env node
/** The executable: checks the version of Node.js before it loads TypeScript. */

import './require-node.mjs';

await import('./report-exporter.ts');

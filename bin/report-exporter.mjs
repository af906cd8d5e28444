#!/usr/bin/env node
/** The executable: checks the version of Node.js, then loads the TypeScript of a checkout, or the package's code. */

import './require-node.mjs';
import { existsSync } from 'node:fs';

const source = new URL('./report-exporter.ts', import.meta.url);
await import(existsSync(source) ? source.href : new URL('../dist/bin/report-exporter.js', import.meta.url).href);

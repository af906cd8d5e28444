/**
 * Stops with one line if this Node.js is older than package.json requires. Every command runs it first, because what follows
 * would only fail with a stack trace: an old Node.js cannot load TypeScript. Hence plain JavaScript, without recent syntax.
 *
 * `npm ci` installs a suitable Node.js, unless `ignore-scripts` is set or development dependencies are omitted.
 */

import { readFileSync } from 'node:fs';

const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const required = Number(/\d+/.exec(engines.node)[0]);

if (Number(process.versions.node.split('.')[0]) < required) {
  process.stderr.write(
    `Error: report-exporter needs Node.js ${required} or later, but this is ${process.version}. ` +
      'Run "npm ci --ignore-scripts=false --include=dev", which installs a suitable Node.js here, ' +
      `or install Node.js ${required} and try again.\n`,
  );
  process.exit(1);
}

/**
 * Prints the notes of the release that a tag names, from CHANGELOG.md, and so decides whether it may be released: the
 * tag must be the version of package.json, and the changelog must have notes for it.
 *
 * @example npm run --silent release:notes -- v1.0.0
 */

import { readFileSync } from 'node:fs';

const [tag = ''] = process.argv.slice(2);
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly version: string };

/** The section of `wanted` in the changelog, without its heading; undefined if there is none. */
function notesOf(wanted: string): string | undefined {
  const [, ...sections] = readFileSync('CHANGELOG.md', 'utf8').split(/^## /m);
  const section = sections.find((each) => /^\S+/.exec(each)?.[0] === wanted);
  return section?.replace(/^.*\n/, '').trim();
}

function fail(message: string): void {
  process.stderr.write(`Error: ${message}\n`);
  process.exitCode = 1;
}

const notes = notesOf(version);
if (version.includes('-')) {
  fail(
    `package.json has ${version}, the version of builds between releases. Set that of the release (docs/releases.md)`,
  );
} else if (tag !== `v${version}`) {
  fail(`The tag ${tag} does not match package.json, which has version ${version}. Tag v${version} instead`);
} else if (notes === undefined || notes === '') {
  fail(`CHANGELOG.md has no notes for ${version}. Add them below a heading "## ${version} - <date>"`);
} else {
  process.stdout.write(`${notes}\n`);
}

/**
 * Prints the notes of the release that a tag names, from CHANGELOG.md, and so decides whether it may be released: the
 * tag must be the version of package.json, and the changelog must have notes for it.
 *
 * @example npm run --silent release:notes -- v1.0.0
 */

import { readFileSync } from 'node:fs';

/** The notes for the tag. @throws Error if it may not be released */
export function releaseNotes(tag: string, version: string, changelog: string): string {
  if (version.includes('-')) {
    throw new Error(
      `package.json has ${version}, the version of builds between releases. Set that of the release (docs/releases.md)`,
    );
  }
  if (tag !== `v${version}`) {
    throw new Error(
      `The tag ${tag} does not match package.json, which has version ${version}. Tag v${version} instead`,
    );
  }
  const [, ...sections] = changelog.split(/^## /m);
  const section = sections.find((each) => /^\S+/.exec(each)?.[0] === version);
  const notes = section?.replace(/^.*\n/, '').trim() ?? '';
  if (notes === '') {
    throw new Error(`CHANGELOG.md has no notes for ${version}. Add them below a heading "## ${version} - <date>"`);
  }
  return notes;
}

if (import.meta.main) {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly version: string };
  try {
    process.stdout.write(`${releaseNotes(process.argv[2] ?? '', version, readFileSync('CHANGELOG.md', 'utf8'))}\n`);
  } catch (error) {
    process.stderr.write(`${String(error)}\n`);
    process.exitCode = 1;
  }
}

import { describe, expect, it } from 'vitest';
import { licenseTexts } from '../../bin/license-texts.ts';

describe('the licenses of bundled packages', () => {
  it('are in one file, with the text of each', () => {
    expect(licenseTexts(['node_modules/zod'])).toMatch(
      /contain code [^]*\nzod 4\S+ \(MIT\)\n\n[^]*Permission is hereby/,
    );
  });

  it('have a text of our own if the package lacks the one that it asks to pass on', () => {
    expect(licenseTexts(['node_modules/saxes'])).toContain('Isaac Z. Schlueter');
    expect(licenseTexts(['node_modules/@aws-lambda-powertools/logger'])).toContain('License: MIT-0');
  });

  it('are required: a package without any text is an error that says what to do', () => {
    expect(() => licenseTexts(['node_modules/@aws-sdk/nested-clients'])).toThrow(
      /^node_modules\/@aws-sdk\/nested-clients has no license text\. Add that of its repository as .*nested-clients\.txt$/,
    );
  });
});

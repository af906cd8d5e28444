/** The XML check holds no more of a document than its limits allow, whatever the document contains. */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { createXmlCheck } from '../../../lib/service/xml/well-formedness.ts';

describe('memory', () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const heapUsed = () => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  const mebibyte = 1024 * 1024;

  it.each([
    ['a CDATA section', '<r><![CDATA[', 64, ']]></r>'],
    ['a comment', '<r><!-- ', 16, '--></r>'],
    ['an instruction', '<r><?p ', 16, '?></r>'],
    ['an instruction ahead of the root', '<?p ', 16, '?><r/>'],
    ['text', '<r>', 16, '</r>'],
    ['an attribute', '<r a="', 16, '"/>'],
    ['a DTD', '<!DOCTYPE r [<!-- ', 16, '-->]><r/>'],
    ['blanks in a tag', '<r', 16, '/>', ' '],
  ])(
    'does not grow with %s',
    (_, opening, mebibytes, closing, filling = 'all work and no play makes Jack a dull boy\n') => {
      const xmlCheck = createXmlCheck();
      const piece = Buffer.from(filling.repeat(Math.floor((64 * 1024) / filling.length)));
      const before = heapUsed();
      xmlCheck.push(Buffer.from(opening));
      for (let sent = 0; sent < mebibytes * mebibyte; sent += piece.length) xmlCheck.push(piece);
      // Nothing is closed yet, so anything that is buffered is held now.
      expect(heapUsed() - before).toBeLessThan((mebibytes * mebibyte) / 8);
      xmlCheck.push(Buffer.from(closing));
      expect(xmlCheck.end()).toBeUndefined();
    },
  );

  it('does not grow with the attributes of an open element', () => {
    const xmlCheck = createXmlCheck();
    const value = 'x'.repeat(64 * 1024);
    const before = heapUsed();
    xmlCheck.push(Buffer.from('<r'));
    for (let number = 0; number < 256; number += 1) xmlCheck.push(Buffer.from(` a${number}="${value}"`));
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    xmlCheck.push(Buffer.from('/>'));
    expect(xmlCheck.end()).toBeUndefined();
  });

  it('does not grow with reports', () => {
    const xmlCheck = createXmlCheck();
    const piece = Buffer.from('<report id="1" title="all work"><line>and no play</line></report>'.repeat(1_000));
    const before = heapUsed();
    xmlCheck.push(Buffer.from('<r>'));
    for (let sent = 0; sent < 16 * mebibyte; sent += piece.length) xmlCheck.push(piece);
    expect(heapUsed() - before).toBeLessThan(2 * mebibyte);
    xmlCheck.push(Buffer.from('</r>'));
    expect(xmlCheck.end()).toBeUndefined();
    expect(xmlCheck.reports).toBe(Math.ceil((16 * mebibyte) / piece.length) * 1_000);
  });

  it.each([
    ['nested elements', '<a>', 'nested deeper'],
    ['attributes in one tag', ' b="1"', 'attributes in one tag', '<a'],
    ['a name', 'n', 'name longer', '<'],
    ['an entity name', 'n', 'name longer', '<a>&'],
    ['an instruction name', 'n', 'name longer', '<?'],
    ['a declaration', '1', 'name longer', '<?xml version="'],
  ])('is bounded by a limit: %s', (_, filling, problem, opening = '') => {
    const xmlCheck = createXmlCheck();
    xmlCheck.push(Buffer.from(opening));
    for (let sent = 0; sent < 40; sent += 1) xmlCheck.push(Buffer.from(filling.repeat(2_000)));
    expect(xmlCheck.end()).toContain(problem);
  });
});

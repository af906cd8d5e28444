import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { directoryReports } from '../../../lib/report-service/simulator/directory-reports.ts';
import { aSimulator, ask, childrenOf, walk } from '../../support/asking-the-simulator.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';

const made: TemporaryDirectory[] = [];
afterAll(() => Promise.all(made.map(({ remove }) => remove())));

/** A directory with these files, all of one modification time. */
async function aDirectory(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const temporary = await temporaryDirectory();
  made.push(temporary);
  const directory = temporary.path;
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), content);
    await dated(directory, name, '2026-11-20T02:00:00Z');
  }
  return directory;
}

const dated = (directory: string, name: string, date: string) =>
  utimes(join(directory, name), new Date(date), new Date(date));

/** What stands in a page for a directory of this one file. */
async function served(content: string | Uint8Array): Promise<string> {
  const reports = await directoryReports(await aDirectory({ 'report.xml': content }));
  await using simulator = await aSimulator({ reports });
  const { text, headers, bytes } = await ask(simulator);
  expect(headers['content-length']).toBe(String(bytes.length));
  expect(childrenOf(text)).toBe(1);
  return text.slice('<?xml version="1.0" encoding="UTF-8"?>\n<reports>'.length, -'</reports>'.length);
}

const mark = '\uFEFF';
const utf16be = (text: string) => Buffer.from(text, 'utf16le').swap16();

describe('a directory of XML files', () => {
  it('serves each file below it as one report, by modification time and then by path', async () => {
    const directory = await aDirectory({
      'b.xml': '<b/>',
      'a.xml': '<a/>',
      'deep/er/C.XML': '<c/>',
      'late.xml': '<late/>',
      'early.xml': '<early/>',
      'notes.txt': 'no report',
      'schema.dtd': '<!ELEMENT a EMPTY>',
      'folder.xml/inside.xml': '<inside/>',
    });
    await dated(directory, 'late.xml', '2026-11-20T02:00:00.001Z');
    await dated(directory, 'early.xml', '2026-11-20T01:59:59.999Z');
    await symlink(join(directory, 'b.xml'), join(directory, 'link.xml'));
    await using simulator = await aSimulator({ reports: await directoryReports(directory) });
    const pages = await walk(simulator, { fields: { size: 3 } });
    expect(simulator.exchanges.flatMap(({ reports }) => reports)).toEqual([
      'early.xml',
      'a.xml',
      'b.xml',
      'deep/er/C.XML',
      'folder.xml/inside.xml',
      'link.xml',
      'late.xml',
    ]);
    expect(pages.map(({ text }) => childrenOf(text))).toEqual([3, 3, 1]);
    const filter = { date: { gte: '2026-11-20T02:00:00.001Z' } };
    expect((await ask(simulator, { fields: { filter } })).text).toContain('<reports><late/></reports>');
  });

  it('a walk goes on at a new instance over the same files', async () => {
    const directory = await aDirectory({ 'a.xml': '<a/>', 'b.xml': '<b/>', 'c.xml': '<c/>' });
    await using former = await aSimulator({ reports: await directoryReports(directory) });
    const { cursor } = await ask(former, { fields: { size: 2 } });
    await using latter = await aSimulator({ reports: await directoryReports(directory) });
    const { text } = await ask(latter, { fields: { size: 2 }, cursor: String(cursor) });
    expect(text).toContain('<reports><c/></reports>');
  });

  it.each<[string, string | Uint8Array, string]>([
    ['nothing but an element', '<a/>', '<a/>'],
    ['a declaration', `<?xml version='1.0' standalone="yes" ?>\r\n<a>\r\n</a>\r\n`, '\r\n<a>\r\n</a>\r\n'],
    ['a byte order mark', `${mark}<a>${mark}é</a>`, `<a>${mark}é</a>`],
    ['two marks', `${mark}${mark}<?xml version="1.0"?><a/>`, '<a/>'],
    ['a mark and a declaration', `${mark}<?xml version="1.0" encoding="utf-8"?><é/>`, '<é/>'],
    [
      'a DOCTYPE',
      '<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "a.dtd">\n<!-- licence -->\n<a/>\n',
      '\n<!-- licence -->\n<a/>\n',
    ],
    [
      'a DOCTYPE full of traps',
      `<!-- é😀 --><?pi?><!DOCTYPE a PUBLIC ">" '>' [<!ENTITY e "]><a>"><!-- ]> ' --><?x ]>?><!ATTLIST a b CDATA '>'>]  ><a/>`,
      '<a/>',
    ],
    [
      'CDATA, comments and PIs',
      '<a><![CDATA[<!DOCTYPE b>]]><!--<?xml?>--><?p i?></a><!-- end --><?e?>',
      '<a><![CDATA[<!DOCTYPE b>]]><!--<?xml?>--><?p i?></a><!-- end --><?e?>',
    ],
    [
      'namespaces',
      '<n:a xmlns:n="urn:n" xmlns="urn:d"><b n:c="1"/></n:a>',
      '<n:a xmlns:n="urn:n" xmlns="urn:d"><b n:c="1"/></n:a>',
    ],
    ['a prefix that is bound nowhere', '<n:a/>', '<n:a/>'],
    [
      'the entities of XML itself',
      '<a b="&quot;">&lt;&amp;&gt;&apos;&#233;&#x1F600;</a>',
      '<a b="&quot;">&lt;&amp;&gt;&apos;&#233;&#x1F600;</a>',
    ],
    [
      'UTF-16 little endian',
      Buffer.from(`${mark}<?xml version="1.0" encoding="UTF-16"?><a>é😀</a>`, 'utf16le'),
      '<a>é😀</a>',
    ],
    ['UTF-16 big endian', utf16be(`${mark}<!DOCTYPE a><a>é😀</a>\n`), '<a>é😀</a>\n'],
    ['UTF-16 without a mark', utf16be('<?xml version="1.0" encoding="UTF-16BE"?><a>é</a>'), '<a>é</a>'],
    [
      'ISO-8859-1',
      Buffer.from('<?xml version="1.0" encoding="ISO-8859-1"?>\n<!DOCTYPE a><!-- ü --><a b="é"/>', 'latin1'),
      '<!-- ü --><a b="é"/>',
    ],
    ['US-ASCII', '<?xml version="1.0" encoding="US-ASCII"?><a>&#233;</a>', '<a>&#233;</a>'],
    [
      'Shift_JIS',
      Buffer.concat([
        Buffer.from('<?xml version="1.0" encoding="Shift_JIS"?><a>'),
        Buffer.of(0x93, 0xfa, 0x96, 0x7b),
        Buffer.from('</a>'),
      ]),
      '<a>日本</a>',
    ],
  ])('a file with %s', async (_, content, expected) => {
    expect(await served(content)).toBe(expected);
  });

  it('megabytes, in any encoding, with a character across every border of a chunk', async () => {
    const declaration = '<?xml version="1.0"?>';
    const element = `<a>${'😀é\r\n'.repeat(300_000)}</a>`;
    expect(await served(declaration + element)).toBe(element);
    expect(await served(`${declaration} ${element}`)).toBe(` ${element}`);
    expect(await served(Buffer.from(`${mark}${declaration}${element}`, 'utf16le'))).toBe(element);
  });

  it('a prolog longer than a chunk', async () => {
    const comment = `<!--${'é'.repeat(100_000)}-->`;
    expect(await served(`<?xml version="1.0"?>${comment}<!DOCTYPE a [${comment}]>${comment}<a/>`)).toBe(
      `${comment}<a/>`,
    );
    expect(await served(Buffer.from(`${mark}${comment}<!DOCTYPE a [${comment}]>${comment}<a/>`, 'utf16le'))).toBe(
      `${comment}<a/>`,
    );
  });

  it('refuses to start over files that cannot stand in a page, and names each one with the reason', async () => {
    const directory = await aDirectory({
      'fine.xml': '<a/>',
      'bad/unclosed.xml': '<a>\n<b></a>',
      'bad/two-roots.xml': '<a/><b/>',
      'bad/empty.xml': '',
      'bad/blank.xml': ' ',
      'bad/declared-late.xml': '\n<?xml version="1.0"?><a/>',
      'bad/early-end.xml': `<a>${'x'.repeat(300_000)}`,
      'bad/early-break.xml': `<a>&${'x'.repeat(300_000)}</a>`,
      'bad/entity.xml': '<!DOCTYPE a [<!ENTITY who "me">]>\n<a>&who;</a>',
      'bad/attribute.xml': '<!DOCTYPE a SYSTEM "html.dtd"><a b="&nbsp;"/>',
      'bad/built-in.xml': '<a>&constructor;</a>',
      'bad/not-utf-8.xml': Buffer.from('<a>é</a>', 'latin1'),
      'bad/cut-short.xml': Buffer.concat([Buffer.from('<a/><!--'), Buffer.of(0xc3)]),
      'bad/unknown.xml': '<?xml version="1.0" encoding="EBCDIC-CP-US"?><a/>',
      'bad/liar.xml': '<?xml version="1.0" encoding="UTF-16"?><a/>',
      'bad/wide.xml': Buffer.of(0xff, 0xfe, 0, 0, 0x3c, 0, 0, 0),
      'bad/one-point-one.xml': '<?xml version="1.1"?><a>&#1;</a>',
    });
    await symlink(join(directory, 'nowhere'), join(directory, 'bad/dangling.xml'));
    const error = await directoryReports(directory).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: 'ConfigurationError' });
    const lines = (error as Error).message.replaceAll(directory, 'DIR').split('\n');
    expect(lines[0]).toBe('17 of 18 files in DIR cannot be served as reports; mend them or take them away:');
    const reasons = Object.fromEntries(lines.slice(1).map((line) => line.trim().split(/: (.*)/s) as [string, string]));
    expect(reasons).toEqual({
      'bad/attribute.xml': expect.stringContaining('it uses the entity &nbsp; and a page cannot hold the DOCTYPE'),
      'bad/blank.xml': expect.stringContaining('document must contain a root element'),
      'bad/built-in.xml': expect.stringContaining('it uses the entity &constructor;'),
      'bad/cut-short.xml': 'it is not valid utf-8',
      'bad/dangling.xml': expect.stringContaining('ENOENT'),
      'bad/declared-late.xml': expect.stringContaining('XML declaration must be at the start'),
      'bad/early-break.xml': expect.stringContaining('unclosed tag: a'),
      'bad/early-end.xml': expect.stringContaining('unclosed tag: a'),
      'bad/empty.xml': expect.stringContaining('document must contain a root element'),
      'bad/entity.xml': expect.stringMatching(/^2:\d+: it uses the entity &who;/),
      'bad/liar.xml': 'it declares the encoding UTF-16, but is not written in it',
      'bad/not-utf-8.xml': 'it is not valid utf-8',
      'bad/one-point-one.xml': expect.stringContaining('malformed character entity'),
      'bad/two-roots.xml': expect.stringContaining('only one root'),
      'bad/unclosed.xml': expect.stringContaining('unexpected close tag'),
      'bad/unknown.xml': 'it declares the encoding EBCDIC-CP-US, which cannot be decoded',
      'bad/wide.xml': 'UTF-32 cannot be decoded',
    });
  });

  it('refuses to start over an empty directory, or none', async () => {
    const empty = await aDirectory({ 'readme.txt': 'nothing here' });
    await expect(directoryReports(empty)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: `There is no .xml file in ${empty}`,
    });
    await expect(directoryReports(join(empty, 'gone'))).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: `The reports' directory ${join(empty, 'gone')} cannot be read`,
      cause: { code: 'ENOENT' },
    });
  });

  it('a file that changed meanwhile breaks the answer off; the others are served on', async () => {
    const directory = await aDirectory({ 'a.xml': '<a/>', 'b.xml': '<b/>' });
    await using simulator = await aSimulator({ reports: await directoryReports(directory) });
    await writeFile(join(directory, 'b.xml'), '<changed/>');
    const first = await ask(simulator, { fields: { size: 1 } });
    expect(first.text).toContain('<a/>');
    await expect(ask(simulator, { fields: { size: 1 }, cursor: String(first.cursor) })).rejects.toBeInstanceOf(Error);
    expect(simulator.exchanges.at(-1)).toMatchObject({
      whole: false,
      problem: { message: expect.stringContaining('b.xml was changed') },
    });
    expect((await ask(simulator, { fields: { size: 1 } })).text).toContain('<a/>');
  });
});

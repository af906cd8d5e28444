import { execFileSync } from 'node:child_process';
import { mkdir, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { directoryReports } from '../../../lib/service/simulator/directory-reports.ts';
import {
  countChildren,
  fetchAllPages,
  sendRequest,
  startTestSimulator,
} from '../../support/service/simulator-client.ts';
import { type TemporaryDirectory, temporaryDirectory } from '../../support/temporary-directory.ts';

const temporaryDirectories: TemporaryDirectory[] = [];
afterAll(() => Promise.all(temporaryDirectories.map(({ remove }) => remove())));

/** Creates a directory with these files, all with the same modification time. */
async function directoryWith(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const temporary = await temporaryDirectory();
  temporaryDirectories.push(temporary);
  const directory = temporary.path;
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), content);
    await setModified(directory, name, '2026-11-20T02:00:00Z');
  }
  return directory;
}

const setModified = (directory: string, name: string, date: string) =>
  utimes(join(directory, name), new Date(date), new Date(date));

/** The part of the page that comes from this file, if it is the only one. */
async function servedContent(content: string | Uint8Array): Promise<string> {
  const reports = await directoryReports(await directoryWith({ 'report.xml': content }));
  await using simulator = await startTestSimulator({ reports });
  const { text, headers, bytes } = await sendRequest(simulator);
  expect(headers['content-length']).toBe(String(bytes.length));
  expect(countChildren(text)).toBe(1);
  return text.slice('<?xml version="1.0" encoding="UTF-8"?>\n<reports>'.length, -'</reports>'.length);
}

const bom = '\uFEFF';

describe('a directory of XML files', () => {
  it('serves each XML file as one report, ordered by modification time and path', async () => {
    const directory = await directoryWith({
      'b.xml': '<b/>',
      'a.xml': '<a/>',
      'deep/er/C.XML': '<c/>',
      'late.xml': '<late/>',
      'early.xml': '<early/>',
      'notes.txt': 'not a report',
      'schema.dtd': '<!ELEMENT a EMPTY>',
      'folder.xml/inside.xml': '<inside/>',
    });
    await setModified(directory, 'late.xml', '2026-11-20T02:00:00.001Z');
    await setModified(directory, 'early.xml', '2026-11-20T01:59:59.999Z');
    await symlink(join(directory, 'b.xml'), join(directory, 'link.xml'));
    await using simulator = await startTestSimulator({ reports: await directoryReports(directory) });
    const pages = await fetchAllPages(simulator, { fields: { size: 3 } });
    expect(simulator.exchanges.flatMap(({ reportIds }) => reportIds)).toEqual([
      'early.xml',
      'a.xml',
      'b.xml',
      'deep/er/C.XML',
      'folder.xml/inside.xml',
      'link.xml',
      'late.xml',
    ]);
    expect(pages.map(({ text }) => countChildren(text))).toEqual([3, 3, 1]);
    const filter = { date: { gte: '2026-11-20T02:00:00.001Z' } };
    expect((await sendRequest(simulator, { fields: { filter } })).text).toContain('<reports><late/></reports>');
  });

  it('continues a cursor at a new instance with the same files', async () => {
    const directory = await directoryWith({ 'a.xml': '<a/>', 'b.xml': '<b/>', 'c.xml': '<c/>' });
    await using first = await startTestSimulator({ reports: await directoryReports(directory) });
    const { cursor } = await sendRequest(first, { fields: { size: 2 } });
    await using second = await startTestSimulator({ reports: await directoryReports(directory) });
    const { text } = await sendRequest(second, { fields: { size: 2 }, cursor: String(cursor) });
    expect(text).toContain('<reports><c/></reports>');
  });

  it.each<[string, string | Uint8Array, string]>([
    ['only an element', '<a/>', '<a/>'],
    ['a declaration', `<?xml version='1.0' standalone="yes" ?>\r\n<a>\r\n</a>\r\n`, '\r\n<a>\r\n</a>\r\n'],
    ['a byte order mark', `${bom}<a>${bom}é</a>`, `<a>${bom}é</a>`],
    ['two byte order marks', `${bom}${bom}<?xml version="1.0"?><a/>`, '<a/>'],
    ['a byte order mark and a declaration', `${bom}<?xml version="1.0" encoding="utf-8"?><é/>`, '<é/>'],
    [
      'a DOCTYPE',
      '<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "a.dtd">\n<!-- licence -->\n<a/>\n',
      '\n<!-- licence -->\n<a/>\n',
    ],
    [
      'a DOCTYPE that is hard to parse',
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
    ['an unbound prefix', '<n:a/>', '<n:a/>'],
    [
      'predefined entities',
      '<a b="&quot;">&lt;&amp;&gt;&apos;&#233;&#x1F600;</a>',
      '<a b="&quot;">&lt;&amp;&gt;&apos;&#233;&#x1F600;</a>',
    ],
    ['US-ASCII', '<?xml version="1.0" encoding="US-ASCII"?><a>&#233;</a>', '<a>&#233;</a>'],
  ])('serves a file with %s', async (_, content, expected) => {
    expect(await servedContent(content)).toBe(expected);
  });

  it('serves megabytes, with characters that span chunks', async () => {
    const declaration = '<?xml version="1.0"?>';
    const element = `<a>${'😀é\r\n'.repeat(300_000)}</a>`;
    expect(await servedContent(declaration + element)).toBe(element);
    expect(await servedContent(`${declaration} ${element}`)).toBe(` ${element}`);
    expect(await servedContent(`${bom}${declaration}${element}`)).toBe(element);
  });

  it('serves a file whose prolog is longer than a chunk', async () => {
    const comment = `<!--${'é'.repeat(100_000)}-->`;
    expect(await servedContent(`<?xml version="1.0"?>${comment}<!DOCTYPE a [${comment}]>${comment}<a/>`)).toBe(
      `${comment}<a/>`,
    );
  });

  it('throws with every file that cannot be part of a page, and the reason', async () => {
    const directory = await directoryWith({
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
      'bad/truncated.xml': Buffer.concat([Buffer.from('<a/><!--'), Buffer.of(0xc3)]),
      'bad/latin-1.xml': '<?xml version="1.0" encoding="ISO-8859-1"?><a/>',
      'bad/utf-16.xml': Buffer.from(`${bom}<a/>`, 'utf16le'),
      'bad/one-point-one.xml': '<?xml version="1.1"?><a>&#1;</a>',
    });
    await symlink(join(directory, 'missing'), join(directory, 'bad/dangling.xml'));
    execFileSync('mkfifo', [join(directory, 'bad/pipe.xml')]);
    const error = await directoryReports(directory).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ name: 'ConfigurationError' });
    const lines = (error as Error).message.replaceAll(directory, 'DIR').split('\n');
    expect(lines[0]).toBe('17 of 18 files in DIR cannot be served as reports. Fix or remove them:');
    const reasons = Object.fromEntries(lines.slice(1).map((line) => line.trim().split(/: (.*)/s) as [string, string]));
    expect(reasons).toEqual({
      'bad/attribute.xml': expect.stringContaining('the entity &nbsp; needs a DOCTYPE, which a page cannot contain'),
      'bad/blank.xml': expect.stringContaining('document must contain a root element'),
      'bad/built-in.xml': expect.stringContaining('the entity &constructor; needs a DOCTYPE'),
      'bad/truncated.xml': 'it is not UTF-8, the encoding of a page',
      'bad/dangling.xml': 'it does not exist',
      'bad/pipe.xml': 'it is a directory, a pipe or a device, not a regular file',
      'bad/declared-late.xml': expect.stringContaining('XML declaration must be at the start'),
      'bad/early-break.xml': expect.stringContaining('unclosed tag: a'),
      'bad/early-end.xml': expect.stringContaining('unclosed tag: a'),
      'bad/empty.xml': expect.stringContaining('document must contain a root element'),
      'bad/entity.xml': expect.stringMatching(/^2:\d+: the entity &who; needs a DOCTYPE/),
      'bad/latin-1.xml': expect.stringContaining('it declares the encoding ISO-8859-1, but'),
      'bad/utf-16.xml': 'it is not UTF-8, the encoding of a page',
      'bad/not-utf-8.xml': 'it is not UTF-8, the encoding of a page',
      'bad/one-point-one.xml': expect.stringContaining('malformed character entity'),
      'bad/two-roots.xml': expect.stringContaining('only one root'),
      'bad/unclosed.xml': expect.stringContaining('unexpected close tag'),
    });
  });

  it('throws for a directory without XML files, or a missing one', async () => {
    const empty = await directoryWith({ 'readme.txt': 'nothing here' });
    await expect(directoryReports(empty)).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: `No .xml file in ${empty}`,
    });
    await expect(directoryReports(join(empty, 'gone'))).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: `The report directory ${join(empty, 'gone')} does not exist`,
    });
    await expect(directoryReports(join(empty, 'readme.txt'))).rejects.toThrow('readme.txt is not a directory');
  });

  it('truncates the response if the file has changed, and still serves the others', async () => {
    const directory = await directoryWith({ 'a.xml': '<a/>', 'b.xml': '<b/>' });
    await using simulator = await startTestSimulator({ reports: await directoryReports(directory) });
    await writeFile(join(directory, 'b.xml'), '<changed/>');
    const first = await sendRequest(simulator, { fields: { size: 1 } });
    expect(first.text).toContain('<a/>');
    await expect(sendRequest(simulator, { fields: { size: 1 }, cursor: String(first.cursor) })).rejects.toBeInstanceOf(
      Error,
    );
    expect(simulator.exchanges.at(-1)).toMatchObject({
      isComplete: false,
      error: { message: expect.stringContaining('b.xml has changed') },
    });
    expect((await sendRequest(simulator, { fields: { size: 1 } })).text).toContain('<a/>');
  });
});

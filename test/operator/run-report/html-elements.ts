/** All elements with this name in an HTML file, with their content. */
export const elementsOf = (file: string, name: string) =>
  [...file.matchAll(new RegExp(`<${name}(?: [^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map(([whole, text = '']) => ({
    whole,
    text,
  }));

/** The text that a reader sees without scripts. */
export const textOf = (file: string): string =>
  file
    .replaceAll(/<(style|script)[^>]*>[\s\S]*?<\/\1>/g, ' ')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ');

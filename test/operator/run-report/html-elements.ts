/** All elements with this name in an HTML file, with their content. */
export const elementsOf = (file: string, name: string) =>
  [...file.matchAll(new RegExp(`<${name}(?: [^>]*)?>([\\s\\S]*?)</${name}>`, 'g'))].map(([whole, text = '']) => ({
    whole,
    text,
  }));

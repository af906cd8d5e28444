/** Measures how well text stands out from its ground, as WCAG 2 defines it. */

export interface Contrast {
  readonly text: string;
  /** From 1, invisible, to 21, black on white; 4.5 is asked for. */
  readonly ratio: number;
}

/** Of every piece of text in sight. Runs in the page, so it takes nothing from outside. */
export function contrastsIn(): Contrast[] {
  const channels = (colour: string) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (colour: string) => {
    const [r = 0, g = 0, b = 0] = channels(colour).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element: Element | null): string => {
    if (element === null) return 'rgb(255, 255, 255)';
    const ground = getComputedStyle(element).backgroundColor;
    return channels(ground)[3] === 0 ? groundOf(element.parentElement) : ground;
  };
  return [...document.querySelectorAll('body *')]
    .filter((element) => element.checkVisibility())
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.nodeValue?.trim()))
    .map((element) => {
      const [a, b] = [luminance(getComputedStyle(element).color), luminance(groundOf(element))];
      return {
        text: (element.textContent ?? '').trim().slice(0, 60),
        ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
      };
    });
}
